//go:build race

package directory

const underRace = true
