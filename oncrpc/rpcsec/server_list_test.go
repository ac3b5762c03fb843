package rpcsec

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestOff checks that a Server without a mechanism lets the Service behind deny all
// calls of RPCSEC_GSS, and that contexts survive such a time.
func TestOff(t *testing.T) {
	off := false
	r := newTestServer(t, ServerConfig{Off: func() bool { return off }})
	u := r.establishContext("alice 1")
	off = true
	assert.Equal(t, rpcmsg.AuthBadCred, authStat(r.sendMessage(initCall(1, "alice 2"))))
	assert.Equal(t, rpcmsg.AuthBadCred, authStat(r.sendMessage(u.newCall(2, procHead, servicePrivacy, opaqueArgs([]byte("x"))))))
	assert.Zero(t, r.program.executed.Load())
	off = false
	stat, _ := u.checkReply(r.sendMessage(u.newCall(3, procHead, servicePrivacy, opaqueArgs([]byte("x")))), 3, u.seq, servicePrivacy)
	assert.EqualValues(t, rpcmsg.Success, stat)
}

// TestContexts checks the list of contexts, with the user of each one's last call.
func TestContexts(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	var client netip.Addr
	r.cfg.Map = func(ctx context.Context, addr netip.Addr, p gss.Principal) (User, bool, error) {
		client = addr
		return mapUser(ctx, addr, p)
	}
	r.establishContext("bob 1")
	u := r.establishContext("alice 1")
	r.sendMessage(u.newCall(2, procHead, serviceNone, opaqueArgs([]byte("x"))))
	assert.Equal(t, r.peer.Addr.Addr(), client)
	v := r.establishContext("carol 1")
	r.sendMessage(v.newCall(3, procHead, serviceNone, opaqueArgs([]byte("x"))))
	list, all := r.Contexts(2)
	assert.Equal(t, 3, all)
	require.Len(t, list, 2)
	assert.WithinDuration(t, time.Now(), list[1].Expires, 24*time.Hour)
	for i := range list {
		list[i].Expires = time.Time{}
	}
	one := ContextInfo{Client: "192.0.2.1/32", Mechanism: "fake"}
	carol, alice := one, one
	carol.Principal, carol.UID = list[0].Principal, rpcmsg.Nobody
	alice.Principal, alice.UID, alice.Mapped = list[1].Principal, 1001, true
	assert.Equal(t, []ContextInfo{carol, alice}, list)
	assert.Contains(t, alice.Principal, "alice@")
	assert.Contains(t, carol.Principal, "carol@")
}

// TestRefusedBy checks that refused tokens count by the mechanism's status, of which
// only some have a count of their own.
func TestRefusedBy(t *testing.T) {
	var c counts
	for range 2 {
		for minor := range uint32(100) {
			c.countRejected(minor + 1)
		}
	}
	assert.EqualValues(t, 200, c.refused.Load())
	assert.EqualValues(t, 2, c.refusedBy[1])
	assert.EqualValues(t, 2*(100-maxStatuses), c.refusedBy[0])
	r := newTestServer(t, ServerConfig{})
	r.sendMessage(initCall(1, "alice"))
	s := r.Stats()
	assert.EqualValues(t, 1, s.Refused)
	assert.Equal(t, map[uint32]uint64{7: 1}, s.RefusedBy)
}

// TestLongPrincipal checks that a principal with a name that is too long to be kept
// gets no context.
func TestLongPrincipal(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	name := strings.Repeat("a", maxName-len("@TEST.EXAMPLE"))
	r.establishContext(name + " 1")
	_, major := readInit(t, r.sendMessage(initCall(1, name+"a 1")), "")
	assert.Equal(t, gss.Failure, major)
	assert.Equal(t, 1, r.Stats().Contexts)
}
