package client_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestAReasonIsSaidOnce(t *testing.T) {
	for reason, want := range map[string]string{
		"":                            "3503 (replaced by the same device)",
		"replaced by the same device": "3503 (replaced by the same device)",
		"a newer tab":                 "3503 (replaced by the same device): a newer tab",
	} {
		require.EqualError(t, &client.LostError{Code: schema.CloseReplaced, Reason: reason}, want)
	}
}
