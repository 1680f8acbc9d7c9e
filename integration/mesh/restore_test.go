package mesh_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// TestAnOldCopyIsRestored brings the server back with a copy of its disk from so long ago that no rewriting
// of keys takes its revisions above the fences held since: of the same bucket, or of the one before.
// Everything forms again above them by itself, no socket is closed, and nobody is called offline.
func TestAnOldCopyIsRestored(t *testing.T) {
	bucket := subjects.Prefix("").BucketStream()
	for name, since := range map[string]func(*mesh.Mesh, jetstream.JetStream) error{
		"of the same bucket": func(m *mesh.Mesh, js jetstream.JetStream) error {
			stream, err := js.Stream(m.T.Context(), bucket)
			if err != nil {
				return err
			}
			return stream.Purge(m.T.Context(), jetstream.WithPurgeSequence(stream.CachedInfo().State.LastSeq+3*lease.MostAhead))
		},
		"of the one before": func(m *mesh.Mesh, js jetstream.JetStream) error {
			m.Pass(3 * lease.MostAhead * time.Millisecond) // a bucket's revisions begin with the time
			return js.DeleteStream(m.T.Context(), bucket)
		},
	} {
		t.Run(name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Authorities: 2, Disk: true}, func(t *testing.T, m *mesh.Mesh) {
				w := newTown(t, m, 50)
				m.Pass(time.Minute)
				js, err := jetstream.New(m.Outsider)
				require.NoError(t, err)
				restore := m.Server.Keep()
				m.Pass(2 * time.Second)
				old := w.fences()
				require.NoError(t, since(m, js))
				m.Pass(time.Minute)
				m.Truth(w.everybody()...)
				held := w.fences()
				for i := range held {
					require.Greater(t, held[i], old[i]+2*lease.MostAhead)
				}
				unknown := w.watch()
				restore()
				m.Pass(time.Minute)
				t.Logf("unknown for %v", unknown())
				require.Less(t, unknown(), 15*time.Second)
				for i, fence := range w.fences() {
					require.Greater(t, fence, held[i])
				}
				m.Truth(w.everybody()...)
				w.stayed()
			})
		})
	}
}

// fences gives those under which everybody is looked up.
func (w *town) fences() (fences []schema.Revision) {
	for _, uid := range w.everybody() {
		fences = append(fences, w.m.Find(uid).Target.Fence)
	}
	return fences
}
