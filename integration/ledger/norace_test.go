//go:build !race

package ledger

// pushes is how many there are where nothing else is said.
const pushes = 100_000
