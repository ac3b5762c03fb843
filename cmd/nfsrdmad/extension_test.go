package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A fakeExtensionHandler receives Immediate Data, and answers it if answer is set.
type fakeExtensionHandler struct {
	link   *rpcrdma.ExtensionConn
	answer bool
	got    chan [8]byte
	closed chan error
}

func (e *fakeExtensionHandler) Immediate(word [8]byte) {
	if e.answer {
		_ = e.link.PostImmediate(word, nil, 0)
	}
	e.got <- word
}
func (e *fakeExtensionHandler) Closed(err error) { e.closed <- err }

// newExtensionConfig returns a configuration whose links are sent to the channel.
func newExtensionConfig(answer bool) (*rpcrdma.ExtensionConfig, <-chan *fakeExtensionHandler) {
	ends := make(chan *fakeExtensionHandler, 1)
	return &rpcrdma.ExtensionConfig{ImmediateRecvs: 16, Atomics: true, Attach: func(l *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler {
		e := &fakeExtensionHandler{link: l, answer: answer, got: make(chan [8]byte, 1000), closed: make(chan error, 1)}
		ends <- e
		return e
	}}, ends
}

func receiveSoon[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "no message arrived")
	}
	return v
}

// TestLinkOverIWARP checks Immediate Data in both directions, calls in both
// directions, and atomic operations on one connection over iWARP, with and
// without CRCs.
func TestLinkOverIWARP(t *testing.T) {
	for name, crc := range map[string]mpa.CRC{"CRC": mpa.CRCOn, "no CRC": mpa.CRCOff} {
		t.Run(name, func(t *testing.T) {
			null := new(oncrpc.Mux)
			null.Register(1, 1, nil) // the Mux answers procedure 0 itself
			theirs, servers := newExtensionConfig(false)
			ours, clients := newExtensionConfig(true)
			backs := make(chan oncrpc.Caller, 1)
			program := serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
				select {
				case backs <- req.Peer.Reverse:
				default:
				}
				return null.Serve(ctx, req, rep)
			})
			cfg := iwarp.Config{CRC: crc, LongFPDUs: func(mpa.Frame) bool { return true }}
			addr := startRDMAServer(t, iwarp.Open(cfg), &rpcrdma.Server{Handler: program, Extensions: theirs})
			var served atomic.Int64
			backchannel := serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
				served.Add(1)
				return null.Serve(ctx, req, rep)
			})
			c, err := rpcrdma.DialConn(t.Context(), iwarp.Open(cfg), addr, rpcrdma.ClientConnConfig{Extensions: ours, Backchannel: backchannel, BackchannelCredits: 3})
			require.NoError(t, err)
			defer c.Close()
			assert.Equal(t, rpcrdma.Extensions{Immediate: 16, Atomics: true}, c.ExtensionConn().Extensions())

			call := func(to oncrpc.Caller) error {
				x := &oncrpc.Exchange{Prog: 1, Vers: 1}
				defer x.Release()
				return to.Call(t.Context(), x)
			}
			require.NoError(t, call(c))
			back, server, client := receiveSoon(t, backs), receiveSoon(t, servers), receiveSoon(t, clients)
			assert.Same(t, server.link, back.(*rpcrdma.ReverseClient).ExtensionConn())
			errs := make(chan error)
			const rounds = 100
			for range 4 {
				go func() {
					var all error
					for range rounds {
						all = errors.Join(all, call(c), call(back))
					}
					errs <- all
				}()
			}
			for sent, got := 0, 0; got < rounds; {
				err := server.link.PostImmediate([8]byte{7: byte(sent)}, nil, 0)
				if sent == rounds || errors.Is(err, rpcrdma.ErrUnanswered) {
					require.Equal(t, byte(got), receiveSoon(t, server.got)[7])
					got++
					continue
				}
				require.NoError(t, err)
				sent++
			}
			for range 4 {
				require.NoError(t, receiveSoon(t, errs))
			}
			assert.EqualValues(t, 4*rounds, served.Load())
			require.NoError(t, c.Close())
			receiveSoon(t, server.closed)
			receiveSoon(t, client.closed)
			assert.ErrorIs(t, call(back), rdma.ErrClosed)
		})
	}
}

// serviceFunc is an oncrpc.Service from a function.
type serviceFunc func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool

func (s serviceFunc) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	return s(ctx, req, rep)
}

// TestServeExtensions checks that the daemon answers with a block only a client
// that sent a block, and with --no-extensions no client.
func TestServeExtensions(t *testing.T) {
	var block cmpriv.Extension
	message := cmpriv.Message{RemoteInvalidation: true, SendSize: 4096, RecvSize: 4096}.AppendTo(nil)
	for _, tt := range []struct {
		flags   []string
		private []byte
		want    bool
	}{
		{nil, message, false},
		{nil, nil, false},
		{nil, block.AppendTo(message), true},
		{[]string{"--no-extensions"}, block.AppendTo(message), false},
	} {
		args := append([]string{"--listen", "127.0.0.1:0", "--tcp", ""}, tt.flags...)
		s := startDaemon(t, append(args, t.TempDir())...)
		closed := make(chan error, 1)
		c, err := iwarp.Open(iwarp.Config{CRC: mpa.CRCOff}).Dial(t.Context(), s.transportAddr(t, "rdma"), rdma.ConnConfig{
			Handler: closedHandler(closed), PrivateData: tt.private,
		})
		require.NoError(t, err)
		_, ok := cmpriv.ParseExtension(c.PrivateData())
		assert.Equal(t, tt.want, ok)
		_, ok = cmpriv.Parse(c.PrivateData())
		assert.True(t, ok)
		require.NoError(t, c.Close())
		receiveSoon(t, closed)
	}
}

type closedHandler chan error

func (closedHandler) Receive(m rdma.Recv)  { m.Buf.Release() }
func (e closedHandler) Closed(cause error) { e <- cause }
