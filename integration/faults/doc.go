// Package faults is the campaign of real faults.
package faults
