// Package model holds a model of the mesh's rules for the model checker SPIN, and the test that runs a
// small part of it. It has no product code; README.md says what the model covers and where it ends.
//
//	presence.pml   what there is: the slot's key, its holders, their directories, gateways, the network
//	  gateway.pml    what a gateway does with a session
//	  directory.pml  what a directory does with what comes
//	  steps.pml      what may happen at any time
//	       |
//	     prove       spin, gcc: one program that searches; a table of the variants, each with what it
//	       |         should do
//	       v
//	  caught     a seeded fault: the search must find it
//	  reached    what must be possible, or a search without an error says nothing
//	  holds      the rules as they are: no error
//
// # Invariants
//
//   - A rule that changes in package gateway, authority or authority/directory changes in the model.
//   - Each seeded fault is a switch in presence.pml, a row in prove and a row in README.md.
//
// # Failures
//
//	spin or gcc missing      prove says so and fails; the test is skipped, unless ROLLCALL_REQUIRE names spin
//	a fault is not caught    prove fails: the model, or its bounds, no longer show why the rule is there
//	a rule is violated       prove fails and prints the steps that lead there
//	the time is over         the search is told as partial: nothing was found as far as it went
package model
