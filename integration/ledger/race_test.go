//go:build race

package ledger

// pushes is how many there are where nothing else is said, under the race detector, which makes each ten times as dear.
const pushes = 10_000
