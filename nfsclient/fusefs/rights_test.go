package fusefs

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
)

// TestRights checks that a node remembers the rights of callers for one grant
// and one ctime.
func TestRights(t *testing.T) {
	const read, write = nfs3.AccessRead, nfs3.AccessModify
	one, other := &caller{cred: rpcmsg.Cred{UID: 1}}, &caller{cred: rpcmsg.Cred{UID: 2}}
	var n node
	n.grant, n.attr.Ctime.Sec = 7, 1
	n.storeRightsLocked(one, read, read)
	n.storeRightsLocked(one, write, 0)
	knows := func(who *caller, want uint32) bool {
		_, known := n.cachedRightsLocked(who, want)
		return known
	}
	allowed, known := n.cachedRightsLocked(one, read|write)
	assert.True(t, known)
	assert.EqualValues(t, read, allowed)
	assert.False(t, knows(one, nfs3.AccessExecute))
	assert.False(t, knows(other, read))

	n.grant = 8
	assert.False(t, knows(one, read), "rights are unknown after a new grant")
	n.grant, n.attr.Ctime.Sec = 7, 2
	assert.False(t, knows(one, read), "a change of rights moves ctime")
	n.storeRightsLocked(other, read, read)
	assert.False(t, knows(one, read))

	n.grant, n.changedAt = 7, 5
	n.recordRights(one, accessReply{asked: read, allowed: read, calledAt: 5})
	assert.False(t, knows(one, read), "it may be older than a change of ours")
	n.recordRights(one, accessReply{asked: read, allowed: read, calledAt: 6})
	assert.False(t, knows(one, read), "older than the grant, for unknown attributes")
	n.recordRights(one, accessReply{asked: read, allowed: read, calledAt: 8})
	assert.True(t, knows(one, read))
}
