package rpcbind

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// start serves list over TCP and connects to it.
func start(t *testing.T, list []Mapping) *oncrpc.TCPClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &oncrpc.Server{Handler: newMux(list)}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := oncrpc.DialTCP(t.Context(), l.Addr().String(), oncrpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
		assert.Zero(t, buf.Default.Out(), "buffers")
	})
	return c
}

func TestGetPort(t *testing.T) {
	c := start(t, []Mapping{
		{mount, 1, TCP, 635},
		{mount, 3, TCP, 65535},
		{mount, 3, UDP, 1},
	})
	for _, tt := range []struct {
		name              string
		prog, vers, proto uint32
		want              uint16
	}{
		{"of many versions", mount, 1, TCP, 635},
		{"the highest port", mount, 3, TCP, 65535},
		{"over UDP", mount, 3, UDP, 1},
		{"another version, which the program will deny", mount, 4, UDP, 1},
		{"program that is not there", mount + 1, 3, TCP, 0},
		{"protocol that is not there", mount, 3, 132, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port, err := GetPort(t.Context(), c, tt.prog, tt.vers, tt.proto)
			assert.Equal(t, tt.want, port)
			if tt.want == 0 {
				assert.ErrorIs(t, err, ErrNotRegistered)
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

func TestDump(t *testing.T) {
	for _, n := range []int{0, 1, maxMappings} {
		var list []Mapping
		for i := range uint32(n) {
			list = append(list, Mapping{i, 3, TCP, i + 1})
		}
		c := start(t, list)
		require.NoError(t, Null(t.Context(), c))
		got, err := Dump(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, list, got)
	}
}

// What would let others change the list, or speak in the portmapper's name, is
// not there.
func TestNotOffered(t *testing.T) {
	c := start(t, list)
	args := Mapping{mount, 4, TCP, 1}.AppendTo(nil)
	for _, proc := range []uint32{1, 2, 5, 6} { // SET, UNSET, CALLIT, none
		x := oncrpc.Exchange{Prog: Program, Vers: PortmapVers, Proc: proc, Args: args}
		assert.ErrorIs(t, c.Call(t.Context(), &x), oncrpc.ErrProcUnavail, proc)
	}
	got, err := Dump(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, list, got)
}

// A port that is none does not become another one.
func TestPortTooHigh(t *testing.T) {
	c := start(t, []Mapping{{mount, 3, TCP, 1<<16 + 111}})
	_, err := GetPort(t.Context(), c, mount, 3, TCP)
	assert.ErrorIs(t, err, xdr.ErrValue)
}

func TestOtherPrograms(t *testing.T) {
	_, err := GetPort(t.Context(), &script{err: oncrpc.ErrProgUnavail}, mount, 3, TCP)
	assert.ErrorIs(t, err, oncrpc.ErrProgUnavail)
}
