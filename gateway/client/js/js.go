package js

import _ "embed"

//go:embed rollcall.js
var module []byte

// Module gives a copy of rollcall.js.
func Module() []byte { return append([]byte(nil), module...) }
