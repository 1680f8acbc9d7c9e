package schema

// FrameCode says why an error frame was sent. The set is closed: a code of a newer gateway reads
// as FrameInternal. Each code is an error itself, so that errors.Is tells them apart.
type FrameCode string

// The codes of error frames.
const (
	FrameBadMessage   FrameCode = "bad_message"   // a field is of the wrong type or out of range
	FrameUnknownType  FrameCode = "unknown_type"  // the gateway does not know the frame's type
	FrameUnsupported  FrameCode = "unsupported"   // known, but not in this version or configuration
	FrameTooLarge     FrameCode = "too_large"     // above a limit of the gateway or the backend
	FrameRateLimited  FrameCode = "rate_limited"  // too many frames a second
	FrameInFlight     FrameCode = "in_flight"     // too many sends without an answer
	FrameNotAllowed   FrameCode = "not_allowed"   // the token does not permit it
	FrameWatchOff     FrameCode = "watch_off"     // client watches are switched off
	FrameWatchLimit   FrameCode = "watch_limit"   // more uids than a client may watch
	FrameNoBackend    FrameCode = "no_backend"    // nobody answers what clients send
	FrameBackendError FrameCode = "backend_error" // the backend refused; its text is the message
	FrameTimeout      FrameCode = "timeout"       // no answer in time: it may or may not have been done
	FrameUnavailable  FrameCode = "unavailable"   // the mesh cannot serve it now
	FrameInternal     FrameCode = "internal"      // a fault of the gateway, or a code unknown here
)

// frameCodes holds each code with whether the same frame may succeed a moment later.
var frameCodes = map[FrameCode]bool{
	FrameBadMessage: false, FrameUnknownType: false, FrameUnsupported: false, FrameTooLarge: false,
	FrameRateLimited: true, FrameInFlight: true, FrameNotAllowed: false, FrameWatchOff: false,
	FrameWatchLimit: false, FrameNoBackend: true, FrameBackendError: false, FrameTimeout: true,
	FrameUnavailable: true, FrameInternal: false,
}

// Error is the code itself.
func (c FrameCode) Error() string { return string(c) }

// Retryable reports whether the same frame may succeed a moment later.
func (c FrameCode) Retryable() bool { return frameCodes[c] }

// known gives c, or FrameInternal for a code of a newer version.
func (c FrameCode) known() FrameCode {
	if _, ok := frameCodes[c]; ok || c == "" {
		return c
	}
	return FrameInternal
}
