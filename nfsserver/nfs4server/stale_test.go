package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestNoStaleAttributes checks that reused memory for results shows nothing about an earlier
// call's object.
func TestNoStaleAttributes(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	file := putStep(g.makeFile("f", "content"))
	all := supportedMinor2.Without(writeOnlyAttrs)
	attrs := func(at step) (b []byte) {
		t.Helper()
		var res nfs4.GetAttrRes
		st, _ := g.sendSteps(at, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: all}, &res})
		require.Equal(t, nfs4.OK, st)
		return res.Attrs.AppendTo(nil)
	}
	node := attrs(putRootStep())
	first := attrs(file)
	assert.Equal(t, node, attrs(putRootStep()))
	assert.Equal(t, first, attrs(file))
}
