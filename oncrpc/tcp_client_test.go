package oncrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newEchoExchange returns a call of echo for the given item.
func newEchoExchange(proc uint32, data []byte) *Exchange {
	x := &Exchange{Prog: testProg, Vers: 2, Proc: proc, Args: xdr.AppendUint32(nil, uint32(len(data))), Item: data}
	if proc == procEcho {
		x.Sink, x.MaxResults = make([]byte, len(data)), 8
	} else {
		x.MaxResults = 4 + len(data) + xdr.Pad(len(data))
	}
	return x
}

// callEcho makes a call of echo and checks its results.
func callEcho(ctx context.Context, t testing.TB, c Caller, proc uint32, data []byte) error {
	x := newEchoExchange(proc, data)
	if err := c.Call(ctx, x); err != nil {
		assert.Nil(t, x.Lent)
		assert.Zero(t, x.Results)
		return err
	}
	defer x.Release()
	assert.True(t, bytes.Equal(data, x.Results.Item(len(data))), "data")
	if proc == procEcho {
		assert.EqualValues(t, 0xdeadbeef, x.Results.Uint32())
	}
	assert.NoError(t, x.Results.Done())
	return nil
}

// TestClientXID checks that a call has the XID that it brings, unless another has that.
func TestClientXID(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := DialTCP(t.Context(), l.Addr().String(), ClientConfig{})
	require.NoError(t, err)
	defer closeClient(t, c)
	nc, err := l.Accept()
	require.NoError(t, err)
	defer nc.Close()
	for _, s := range []*fakeSigner{nil, {call: []byte("call")}} {
		var xids []uint32
		end := make(chan error, 2)
		for range 2 {
			x := &Exchange{Prog: testProg, Vers: 2, Proc: procHead, XID: 77, MaxResults: 8}
			if s != nil {
				x.Signer = s
			}
			go func() {
				err := c.Call(t.Context(), x)
				x.Release()
				end <- err
			}()
			xids = append(xids, binary.BigEndian.Uint32(readRecord(t, nc)))
		}
		assert.EqualValues(t, 77, xids[0])
		assert.NotEqual(t, xids[0], xids[1])
		for _, xid := range xids {
			reply := append(appendWords(xid, 1, 0, 6, 8), "verifier"...)
			_, err := nc.Write(newRecord(append(reply, appendWords(0, 1, 2)...)))
			require.NoError(t, err)
			require.NoError(t, <-end)
		}
	}
}

// dialClient connects to a server. The test's end closes the connection and checks
// that nothing is left.
func (r *testServer) dialClient(cfg ClientConfig) *TCPClient {
	r.t.Helper()
	c, err := DialTCP(r.t.Context(), r.addr, cfg)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { closeClient(r.t, c) })
	return c
}

func closeClient(t testing.TB, c *TCPClient) {
	assert.NoError(t, c.Close())
	assert.NoError(t, c.Close(), "again")
	assert.Empty(t, c.calls)
	assert.Empty(t, c.out.waiting)
	assert.Empty(t, c.out.batch)
	assert.ErrorIs(t, c.Call(context.Background(), new(Exchange)), ErrClosed)
}

// TestClientCalls makes many concurrent calls of every size and padding.
func TestClientCalls(t *testing.T) {
	c := startServer(t, &Server{Handler: echoMux()}).dialClient(ClientConfig{})
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			for _, n := range []int{i, 4096 + i, 1<<20 - i} {
				data := bytes.Repeat([]byte{byte(i), 1, 2, 3, 4, 5, 6}, n/7+1)[:n]
				assert.NoError(t, callEcho(t.Context(), t, c, procEcho+uint32(i%2), data))
			}
		})
	}
	wg.Wait()
}

func TestClientRefused(t *testing.T) {
	c := startServer(t, &Server{Handler: echoMux()}).dialClient(ClientConfig{})
	call := func(x Exchange) error {
		defer x.Release()
		return c.Call(t.Context(), &x)
	}
	assert.NoError(t, call(Exchange{Prog: testProg, Vers: 2}))
	assert.ErrorIs(t, call(Exchange{Prog: testProg + 1}), ErrProgUnavail)
	var mismatch *ReplyError
	require.ErrorAs(t, call(Exchange{Prog: testProg, Vers: 3}), &mismatch)
	assert.Equal(t, []uint32{2, 4}, []uint32{mismatch.Low, mismatch.High})
	assert.ErrorIs(t, call(Exchange{Prog: testProg, Vers: 2, Proc: 9, Args: make([]byte, 4)}), ErrProcUnavail)
	assert.ErrorIs(t, call(Exchange{Prog: testProg, Vers: 2, Proc: procEcho}), ErrGarbageArgs)
	assert.ErrorIs(t, call(Exchange{Prog: testProg, Vers: 2, Cred: rpcmsg.Cred{Flavor: 7}}), rpcmsg.AuthBadCred)
	assert.NoError(t, callEcho(t.Context(), t, c, procEcho, []byte("hello")), "the connection lives")
}

func TestDialTCPRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	_, err = DialTCP(t.Context(), l.Addr().String(), ClientConfig{})
	assert.ErrorContains(t, err, "connection refused")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(assert.AnError)
	_, err = DialTCP(ctx, l.Addr().String(), ClientConfig{})
	assert.ErrorIs(t, err, assert.AnError)
}
