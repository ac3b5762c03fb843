package oncrpc

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/xdr"
)

func TestAuthSys(t *testing.T) {
	for _, tt := range []struct {
		file string
		want Cred
	}{
		{"getattr-call", Cred{Flavor: AuthSys, GIDs: []uint32{}}},
		{"authsys-call", Cred{
			Flavor: AuthSys, UID: 1000, GID: 100,
			GIDs: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1<<32 - 1},
		}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			r := xdr.NewReader(wiretest.Hex(t, "testdata/"+tt.file+".hex"))
			h, err := readCall(&r)
			require.NoError(t, err)
			require.NoError(t, checkFlavor(h.cred.flavor))
			var gids [maxGIDs]uint32
			c, err := decodeCred(h.cred, h.verf, &gids)
			require.NoError(t, err)
			assert.Equal(t, tt.want, c)
			for n := range h.cred.body { // cut at every octet
				_, err := decodeAuthSys(h.cred.body[:n], &gids)
				assert.Equal(t, AuthBadCred, err, n)
			}
			longer := append(h.cred.body[:len(h.cred.body):len(h.cred.body)], 0, 0, 0, 0)
			_, err = decodeAuthSys(longer, &gids)
			assert.Equal(t, AuthBadCred, err, "octets behind the gids")
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				_, _ = decodeCred(h.cred, h.verf, &gids)
			}))
		})
	}
}

// authSys returns authsys_parms with a machine name and gids of these lengths.
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
		cred, verf opaqueAuth
		want       error
	}{
		{"none", opaqueAuth{}, opaqueAuth{}, nil},
		{"none, undefined bodies", opaqueAuth{body: []byte("x")}, opaqueAuth{body: []byte("y")}, nil},
		{"no machine name", opaqueAuth{AuthSys, authSys(0, 0)}, opaqueAuth{}, nil},
		{"machine name of 255", opaqueAuth{AuthSys, authSys(255, 16)}, opaqueAuth{}, nil},
		{"machine name of 256", opaqueAuth{AuthSys, authSys(256, 0)}, opaqueAuth{}, AuthBadCred},
		{"17 gids", opaqueAuth{AuthSys, authSys(0, 17)}, opaqueAuth{}, AuthBadCred},
		{"2^32-1 gids", opaqueAuth{AuthSys, authSys(0, 1<<32-1)}, opaqueAuth{}, AuthBadCred},
		{"empty", opaqueAuth{flavor: AuthSys}, opaqueAuth{}, AuthBadCred},
		{"verifier AUTH_SYS", opaqueAuth{AuthSys, authSys(0, 0)}, opaqueAuth{flavor: AuthSys}, AuthBadVerf},
		{"verifier RPCSEC_GSS", opaqueAuth{}, opaqueAuth{flavor: 6}, AuthBadVerf},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var gids [maxGIDs]uint32
			c, err := decodeCred(tt.cred, tt.verf, &gids)
			assert.Equal(t, tt.want, err)
			if err != nil {
				assert.Zero(t, c)
			}
		})
	}
}

func TestAuthNoneIsNobody(t *testing.T) {
	c, err := decodeCred(opaqueAuth{}, opaqueAuth{}, nil)
	require.NoError(t, err)
	assert.Equal(t, Cred{Flavor: AuthNone, UID: 65534, GID: 65534}, c)
}

func TestCheckFlavor(t *testing.T) {
	for flavor, want := range map[uint32]error{
		AuthNone: nil, AuthSys: nil,
		2:         AuthRejectedCred, // AUTH_SHORT
		3:         AuthBadCred,      // AUTH_DH
		6:         AuthBadCred,      // RPCSEC_GSS
		7:         AuthBadCred,      // AUTH_TLS
		1<<32 - 1: AuthBadCred,
	} {
		assert.Equal(t, want, checkFlavor(flavor), flavor)
	}
}

func TestAuthErrorNames(t *testing.T) {
	assert.EqualError(t, AuthBadCred, "oncrpc: call denied: AUTH_BADCRED (1)")
	assert.EqualError(t, AuthRejectedCred, "oncrpc: call denied: AUTH_REJECTEDCRED (2)")
	assert.EqualError(t, AuthBadVerf, "oncrpc: call denied: AUTH_BADVERF (3)")
	assert.EqualError(t, AuthRejectedVerf, "oncrpc: call denied: AUTH_REJECTEDVERF (4)")
	assert.EqualError(t, AuthTooWeak, "oncrpc: call denied: AUTH_TOOWEAK (5)")
	assert.EqualError(t, AuthError(13), "oncrpc: call denied: unnamed (13)")
}
