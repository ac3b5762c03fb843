package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestOnlyNFS4 checks that a daemon with NFSv4 alone serves no other program, at one port for each
// transport.
func TestOnlyNFS4(t *testing.T) {
	s := startDaemon(t, "--vers", "4.2", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "mem:=/x")
	assert.NotContains(t, s.ready, "udp=")
	at := s.transportAddr(t, "tcp")
	c, err := oncrpc.DialTCP(t.Context(), at, oncrpc.ClientConfig{})
	require.NoError(t, err)
	defer c.Close()
	for _, p := range []struct{ prog, vers uint32 }{
		{mount3.Program, mount3.Version},
		{nfsacl.Program, nfsacl.Version},
		{nlm4.Program, nlm4.Version},
		{nsm.Program, nsm.Version},
	} {
		x := oncrpc.Exchange{Prog: p.prog, Vers: p.vers}
		assert.ErrorIs(t, c.Call(t.Context(), &x), oncrpc.ErrProgUnavail, p.prog)
		x.Release()
	}
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version}
	defer x.Release()
	mismatch, ok := errors.AsType[*oncrpc.ReplyError](c.Call(t.Context(), &x))
	require.True(t, ok)
	assert.Equal(t, [2]uint32{nfs4.Version, nfs4.Version}, [2]uint32{mismatch.Low, mismatch.High})
	session, err := nfsrdma.DialV4(t.Context(), at, nfs4.Minor2, nfsrdma.ClientConfig{TCP: true})
	require.NoError(t, err)
	defer session.Close(t.Context())
	_, err = session.Walk(t.Context(), "/x")
	assert.NoError(t, err)
}
