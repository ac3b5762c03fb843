package mem

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

func TestConformance(t *testing.T) {
	caller := vfs.Cred{UID: 70000, GID: 70000, Groups: []uint32{70100}}
	vfstest.Run(t, vfstest.Backend{
		New: func(t *testing.T) vfs.FS {
			f := New(Options{Mode: 0o755, UID: caller.UID, GID: caller.GID})
			t.Cleanup(func() {
				assert.Equal(t, f.count(), f.used, "bytes counted")
				assert.NoError(t, f.Close())
			})
			return f
		},
		Caller: caller,
	})
}

// count returns how much the existing objects count against the size.
func (f *FS) count() (used int64) {
	for _, n := range f.nodes {
		used += int64(len(n.clusters))*clusterCost + int64(len(n.target))
		for name, value := range n.xattrs {
			used += xattrCost(name, len(value))
		}
		for _, cl := range n.clusters {
			for _, pg := range cl.pages {
				if pg != nil {
					used += pageLen
				}
			}
		}
		switch {
		case n == f.root:
		case n.attr.Type == vfs.TypeDir:
			used += objectCost
		default:
			used += int64(n.attr.Nlink) * objectCost
		}
	}
	return used
}
