// Package directory is the pure in-memory directory of one slot.
package directory
