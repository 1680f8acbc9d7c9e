package js

import _ "embed"

//go:embed rollcall.js
var module []byte

//go:embed rules.js
var rules []byte

// Module gives a copy of rollcall.js.
func Module() []byte { return append([]byte(nil), module...) }

// Rules gives a copy of rules.js, which rollcall.js imports from beside it.
func Rules() []byte { return append([]byte(nil), rules...) }
