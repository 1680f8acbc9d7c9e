package app

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARefusalIsToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		require.True(t, r.anew("a"))
		require.False(t, r.anew("a"))
		require.True(t, r.anew("b"))
		time.Sleep(time.Minute)
		require.True(t, r.anew("a"))
		for i := range 10_000 {
			r.anew(fmt.Sprint(i))
		}
		require.LessOrEqual(t, len(r.told), refusalsMost)
	})
}
