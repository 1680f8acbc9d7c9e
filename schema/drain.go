package schema

// DrainReply is the JSON that answers gateway.<node>.<boot>.drain and authority.<node>.<boot>.drain:
// the process ends as on SIGTERM, and is asked again for its progress until nobody answers.
type DrainReply struct {
	Node NodeID `json:"node"`
	Boot BootID `json:"boot"`
	Left int    `json:"left"` // of a gateway: sessions not closed yet; of an authority: slots not handed over
}
