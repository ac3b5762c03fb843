//go:build linux

package posix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// What has lost its last name by this server is not kept open, and what has another
// is, whichever kind of handles it has, and whether it was seen before or not.
func TestUnnamed(t *testing.T) {
	for kind, o := range benchKinds() {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, o)
			root, ctx := w.f.Root(), t.Context()
			m, err := w.f.Create(ctx, &w.c, root, "f", vfs.CreateHow{})
			require.NoError(t, err)
			_, _, _, err = w.f.Write(ctx, &w.c, m.Handle, []byte("x"), 0, vfs.Unstable)
			require.NoError(t, err)
			_, _, err = w.f.Link(ctx, &w.c, m.Handle, root, "g")
			require.NoError(t, err)
			require.True(t, w.f.cache.holds(m.Handle))

			_, err = w.f.Remove(ctx, &w.c, root, "f")
			require.NoError(t, err)
			assert.True(t, w.f.cache.holds(m.Handle), "it has another name")
			h, err := w.f.Create(ctx, &w.c, root, "h", vfs.CreateHow{})
			require.NoError(t, err)
			_, _, err = w.f.Rename(ctx, &w.c, root, "h", root, "g")
			require.NoError(t, err)
			assert.False(t, w.f.cache.holds(m.Handle), "another took its last name")
			_, err = w.f.Remove(ctx, &w.c, root, "g")
			require.NoError(t, err)
			assert.False(t, w.f.cache.holds(h.Handle))
		})
	}
}
