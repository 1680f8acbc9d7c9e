//go:build !race

package directory

// underRace says that memory and time are not worth measuring.
const underRace = false
