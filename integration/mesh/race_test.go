//go:build race

package mesh_test

// share is which part of the large numbers is done: the race detector takes ten times as long.
const share = 10
