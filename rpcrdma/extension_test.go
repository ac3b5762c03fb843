package rpcrdma

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestAgree checks that a feature is on if both ends have it, with all its
// requirements.
func TestAgree(t *testing.T) {
	all := cmpriv.Extension{Immediate: true, Atomics: true, Delegation: true, ImmediateRecvs: 8}
	but := func(f func(e *cmpriv.Extension)) cmpriv.Extension {
		e := all
		f(&e)
		return e
	}
	for name, tt := range map[string]struct {
		theirs cmpriv.Extension
		depth  int
		want   Extensions
	}{
		"all":                 {all, 1, Extensions{8, true, true}},
		"fewer receives":      {but(func(e *cmpriv.Extension) { e.ImmediateRecvs = 3 }), 16, Extensions{3, true, true}},
		"more receives":       {but(func(e *cmpriv.Extension) { e.ImmediateRecvs = 9 }), 16, Extensions{8, true, true}},
		"no delegation":       {but(func(e *cmpriv.Extension) { e.Delegation = false }), 16, Extensions{8, true, false}},
		"no immediate data":   {but(func(e *cmpriv.Extension) { e.Immediate = false }), 16, Extensions{0, true, false}},
		"no receives":         {but(func(e *cmpriv.Extension) { e.ImmediateRecvs = 0 }), 16, Extensions{0, true, false}},
		"no atomics":          {but(func(e *cmpriv.Extension) { e.Atomics = false }), 16, Extensions{8, false, false}},
		"no ORD, or no IRD":   {all, 0, Extensions{8, false, false}},
		"a block and no more": {cmpriv.Extension{}, 16, Extensions{}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, agreedExtensions(all, tt.theirs, tt.depth))
			assert.Equal(t, tt.want, agreedExtensions(tt.theirs, all, tt.depth))
		})
	}
}

// A depthConn is a connection with the given limits for outstanding RDMA Reads.
type depthConn struct {
	rdma.Conn
	ird, ord int
}

func (s depthConn) ReadDepth() (ird, ord int) { return s.ird, s.ord }

func TestDepth(t *testing.T) {
	c := depthConn{ird: 3, ord: 5}
	assert.Equal(t, 3, atomicDepth(c, true))
	assert.Equal(t, 5, atomicDepth(c, false))
	assert.Equal(t, math.MaxInt, atomicDepth(nil, true))
}

// depthDialer makes connections without RDMA Reads.
type depthDialer struct{ memDialer }

func (d *depthDialer) Dial(ctx context.Context, addr string, cc rdma.ConnConfig) (rdma.Conn, error) {
	c, err := d.memDialer.Dial(ctx, addr, cc)
	return depthConn{c, 128, 0}, err
}

func TestExtensionNegotiation(t *testing.T) {
	s := new(extensionRecorder)
	off, bare := (*ExtensionConfig)(nil), &ExtensionConfig{}
	atomics, imm := &ExtensionConfig{Atomics: true}, &ExtensionConfig{ImmediateRecvs: 4, Attach: s.attachConn}
	for i, tt := range []struct {
		client, server *ExtensionConfig
		want           Extensions
	}{
		{off, off, Extensions{}},
		{off, imm, Extensions{}},
		{imm, off, Extensions{}},
		{bare, bare, Extensions{}},
		{imm, bare, Extensions{}},
		{atomics, atomics, Extensions{Atomics: true}},
		{atomics, imm, Extensions{}},
		{imm, imm, Extensions{Immediate: 4}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			withServer(t, &Server{Handler: null, Extensions: tt.server}, func(t *testing.T, r *testServer) {
				c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Extensions: tt.client})
				require.NoError(t, err)
				synctest.Wait()
				theirs := r.onlyConn().reverse.ExtensionConn()
				request, reply := r.onlyConn().rc.PrivateData(), c.Conn().PrivateData()
				want := 8
				if tt.client != nil { // the client sends first, and cannot know
					want += cmpriv.ExtensionLen
				}
				assert.Len(t, request, want)
				if tt.client != nil && tt.server != nil {
					assert.Len(t, reply, 8+cmpriv.ExtensionLen)
					assert.Equal(t, tt.want, c.ExtensionConn().Extensions())
					assert.Equal(t, tt.want, theirs.Extensions())
					assert.Equal(t, tt.server.offerBlock(), c.ExtensionConn().Peer())
					assert.Equal(t, tt.client.offerBlock(), theirs.Peer())
				} else {
					assert.Len(t, reply, 8, "a peer without a block gets none")
					assert.Nil(t, c.ExtensionConn())
					assert.Nil(t, theirs)
				}
				_, ok := c.Peer()
				assert.True(t, ok, "R8797-5-1")
				require.NoError(t, c.Close())
			})
		})
	}
	t.Run("no RDMA Reads", func(t *testing.T) {
		withServer(t, &Server{Handler: null, Extensions: atomics}, func(t *testing.T, r *testServer) {
			c, err := DialConn(t.Context(), &depthDialer{memDialer{l: r.listen}}, "", ClientConnConfig{Extensions: atomics})
			require.NoError(t, err)
			assert.Equal(t, Extensions{}, c.ExtensionConn().Extensions())
			require.NoError(t, c.Close())
		})
	})
	t.Run("no private data", func(t *testing.T) {
		withServer(t, &Server{Handler: null, Extensions: imm}, func(t *testing.T, r *testServer) {
			c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{NoPrivateData: true, Extensions: imm})
			require.NoError(t, err)
			synctest.Wait()
			assert.Empty(t, r.onlyConn().rc.PrivateData())
			assert.Nil(t, c.ExtensionConn())
			require.NoError(t, c.Close())
		})
	})
}

// TestExtensionReceives checks that receives for Immediate Data are posted from
// the start, if it is on.
func TestExtensionReceives(t *testing.T) {
	x := new(extensionRecorder).newConfig(5)
	for _, tt := range []struct {
		private []byte
		recvs   int
	}{{extensionPrivateData(3), 15}, {extensionPrivateData(9), 15}, {extensionPrivateData(0), 10}, {linux.AppendTo(nil), 10}, {nil, 10}} {
		cc := rdma.ConnConfig{Recvs: 10}
		x.offerAsResponder(tt.private, &cc, nil, nil)
		assert.Equal(t, tt.recvs, cc.Recvs)
		assert.Equal(t, tt.recvs > 10, cc.Immediate)
	}
	var cc rdma.ConnConfig
	x.offerAsRequester(nil, &cc)
	assert.Zero(t, cc.Recvs, "a requester posts them when both have agreed")
}

func TestExtensionConfig(t *testing.T) {
	attach := new(extensionRecorder).attachConn
	for _, x := range []*ExtensionConfig{
		{ImmediateRecvs: -1, Attach: attach}, {ImmediateRecvs: 65536, Attach: attach}, {ImmediateRecvs: 1},
	} {
		assert.Error(t, (&ClientConnConfig{Extensions: x}).fillAndCheck())
		assert.Error(t, (&Server{Handler: null, Extensions: x}).init())
	}
	x := &ExtensionConfig{ImmediateRecvs: 65535, Attach: attach}
	assert.NoError(t, (&ClientConnConfig{Extensions: x}).fillAndCheck())
	assert.NoError(t, (&Server{Handler: null, Extensions: x}).init())
}
