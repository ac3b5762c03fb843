package oncrpc

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAuthSys(t *testing.T) {
	for _, tt := range []struct {
		file string
		want rpcmsg.Cred
	}{
		{"getattr-call", rpcmsg.Cred{Flavor: rpcmsg.AuthSys, GIDs: []uint32{}}},
		{"authsys-call", rpcmsg.Cred{
			Flavor: rpcmsg.AuthSys, UID: 1000, GID: 100,
			GIDs: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1<<32 - 1},
		}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			r := xdr.NewReader(wiretest.Hex(t, "testdata/"+tt.file+".hex"))
			h, err := rpcmsg.ReadCall(&r)
			require.NoError(t, err)
			require.NoError(t, rpcmsg.CheckFlavor(h.Cred.Flavor))
			var gids [rpcmsg.MaxGIDs]uint32
			c, err := rpcmsg.DecodeCred(h.Cred, h.Verf, &gids)
			require.NoError(t, err)
			assert.Equal(t, tt.want, c)
			for n := range h.Cred.Body { // cut at every byte
				_, err := rpcmsg.DecodeAuthSys(h.Cred.Body[:n], &gids)
				assert.Equal(t, rpcmsg.AuthBadCred, err, n)
			}
			longer := append(h.Cred.Body[:len(h.Cred.Body):len(h.Cred.Body)], 0, 0, 0, 0)
			_, err = rpcmsg.DecodeAuthSys(longer, &gids)
			assert.Equal(t, rpcmsg.AuthBadCred, err, "bytes behind the gids")
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				_, _ = rpcmsg.DecodeCred(h.Cred, h.Verf, &gids)
			}))
		})
	}
}

// authSys returns authsys_parms with a machine name and gids of the given
// lengths.
func authSys(name, gids int) []byte {
	b := xdr.AppendUint32(nil, 0)
	b = xdr.AppendOpaque(b, make([]byte, name))
	b = xdr.AppendUint32(b, 1)
	b = xdr.AppendUint32(b, 2)
	b = xdr.AppendUint32(b, uint32(gids))
	return append(b, make([]byte, 4*min(gids, 20))...)
}

func TestCredLimits(t *testing.T) {
	for _, tt := range []struct {
		name       string
		cred, verf rpcmsg.OpaqueAuth
		want       error
	}{
		{"none", rpcmsg.OpaqueAuth{}, rpcmsg.OpaqueAuth{}, nil},
		{"none, undefined bodies", rpcmsg.OpaqueAuth{Body: []byte("x")}, rpcmsg.OpaqueAuth{Body: []byte("y")}, nil},
		{"no machine name", rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthSys, Body: authSys(0, 0)}, rpcmsg.OpaqueAuth{}, nil},
		{"machine name of 255", rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthSys, Body: authSys(255, 16)}, rpcmsg.OpaqueAuth{}, nil},
		{"machine name of 256", rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthSys, Body: authSys(256, 0)}, rpcmsg.OpaqueAuth{}, rpcmsg.AuthBadCred},
		{"17 gids", rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthSys, Body: authSys(0, 17)}, rpcmsg.OpaqueAuth{}, rpcmsg.AuthBadCred},
		{"2^32-1 gids", rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthSys, Body: authSys(0, 1<<32-1)}, rpcmsg.OpaqueAuth{}, rpcmsg.AuthBadCred},
		{"empty", rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthSys}, rpcmsg.OpaqueAuth{}, rpcmsg.AuthBadCred},
		{"verifier AUTH_SYS", rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthSys, Body: authSys(0, 0)}, rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthSys}, rpcmsg.AuthBadVerf},
		{"verifier RPCSEC_GSS", rpcmsg.OpaqueAuth{}, rpcmsg.OpaqueAuth{Flavor: 6}, rpcmsg.AuthBadVerf},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var gids [rpcmsg.MaxGIDs]uint32
			c, err := rpcmsg.DecodeCred(tt.cred, tt.verf, &gids)
			assert.Equal(t, tt.want, err)
			if err != nil {
				assert.Zero(t, c)
			}
		})
	}
}

func TestAuthNoneIsNobody(t *testing.T) {
	c, err := rpcmsg.DecodeCred(rpcmsg.OpaqueAuth{}, rpcmsg.OpaqueAuth{}, nil)
	require.NoError(t, err)
	assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthNone, UID: 65534, GID: 65534}, c)
}

func TestCheckFlavor(t *testing.T) {
	for flavor, want := range map[uint32]error{
		rpcmsg.AuthNone: nil, rpcmsg.AuthSys: nil,
		2:         rpcmsg.AuthRejectedCred, // AUTH_SHORT
		3:         rpcmsg.AuthBadCred,      // AUTH_DH
		6:         rpcmsg.AuthBadCred,      // RPCSEC_GSS
		7:         rpcmsg.AuthBadCred,      // AUTH_TLS
		1<<32 - 1: rpcmsg.AuthBadCred,
	} {
		assert.Equal(t, want, rpcmsg.CheckFlavor(flavor), flavor)
	}
}

func TestAuthErrorNames(t *testing.T) {
	assert.EqualError(t, rpcmsg.AuthBadCred, "oncrpc: call denied: AUTH_BADCRED (1)")
	assert.EqualError(t, rpcmsg.AuthRejectedCred, "oncrpc: call denied: AUTH_REJECTEDCRED (2)")
	assert.EqualError(t, rpcmsg.AuthBadVerf, "oncrpc: call denied: AUTH_BADVERF (3)")
	assert.EqualError(t, rpcmsg.AuthRejectedVerf, "oncrpc: call denied: AUTH_REJECTEDVERF (4)")
	assert.EqualError(t, rpcmsg.AuthTooWeak, "oncrpc: call denied: AUTH_TOOWEAK (5)")
	assert.EqualError(t, rpcmsg.AuthCredProblem, "oncrpc: call denied: RPCSEC_GSS_CREDPROBLEM (13)", "R2203-3-1")
	assert.EqualError(t, rpcmsg.AuthCtxProblem, "oncrpc: call denied: RPCSEC_GSS_CTXPROBLEM (14)", "R2203-3-1")
	assert.EqualError(t, rpcmsg.AuthError(12), "oncrpc: call denied: unnamed (12)")
}

// TestVerified checks that a program sees the caller that a Service has verified, and
// that a pseudo-flavor in a call itself is refused.
func TestVerified(t *testing.T) {
	var seen rpcmsg.Cred
	m := new(Mux)
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error { seen = c.Cred; return nil }))
	want := rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5i, UID: 7, GID: 8, GIDs: []uint32{9}, Principal: "alice@TEST.EXAMPLE"}
	msg := newCallMessage(1, testProg, 2, 1)
	assert.Equal(t, rpcmsg.AppendAccepted(nil, 1, rpcmsg.Success), serveRequest(t, m, &Request{Msg: msg, Verified: &want}))
	assert.Equal(t, want, seen)
	binary.BigEndian.PutUint32(msg[24:], rpcmsg.AuthKrb5i)
	assert.Equal(t, rpcmsg.AppendAuthError(nil, 1, rpcmsg.AuthBadCred), serveRequest(t, m, &Request{Msg: msg}))
}
