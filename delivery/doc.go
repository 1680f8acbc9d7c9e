// Package delivery looks users up, pushes messages to their devices and kicks sessions.
package delivery
