package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestNoStaleAttributes checks that memory for results that is used again shows
// nothing of the object of an earlier call.
func TestNoStaleAttributes(t *testing.T) {
	g := newRig(t).connect().asRoot()
	file := put(g.make("f", "content"))
	all := supported2.Without(onlySet)
	attrs := func(at step) (b []byte) {
		t.Helper()
		var res nfs4.GetAttrRes
		st, _ := g.do(at, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: all}, &res})
		require.Equal(t, nfs4.OK, st)
		return res.Attrs.AppendTo(nil)
	}
	node := attrs(root())
	first := attrs(file)
	assert.Equal(t, node, attrs(root()))
	assert.Equal(t, first, attrs(file))
}
