//go:build !race

package mesh_test

// share is which part of the large numbers is done: all.
const share = 1
