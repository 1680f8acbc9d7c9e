// Package arch holds the tests that keep the house's shape: which package may import which, what
// only one package may touch, how long files and functions may be, and what stands at the top.
//
// The arrows, each package importing only what stands to its left:
//
//	schema <- subjects <- authority/lease <- authority/client <- gateway   <- cmd
//	   ^                                                      <- delivery  <- integration
//	   +---- authority/directory <---------------------------- authority
//
// gateway, delivery and authority never import each other. A rule that must give way is changed
// here, with its reason, in the commit that needs it.
package arch
