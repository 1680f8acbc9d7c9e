// Package client finds the authority that owns a slot and asks it. Gateways and delivery stand on
// it; it owns the lanes to the authorities, and nothing that outlives a request.
package client
