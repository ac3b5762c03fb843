package iwarp

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// oldPeerBehavior describes how a revision1Peer treats revision 2 requests.
type oldPeerBehavior struct {
	reply       []byte // nil: the peer closes the connection
	reset       bool   // closes with a reset
	rejectsRev1 bool   // treats revision 1 requests the same
}

// An revision1Peer is a responder that knows only revision 1.
type revision1Peer struct {
	net.Listener
	oldPeerBehavior

	mu       sync.Mutex
	requests []mpa.Frame
	served   sync.WaitGroup
}

func newRevision1Peer(t testing.TB, m oldPeerBehavior) *revision1Peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &revision1Peer{Listener: l, oldPeerBehavior: m}
	p.served.Go(p.run)
	t.Cleanup(func() {
		l.Close()
		p.served.Wait()
	})
	return p
}

func (p *revision1Peer) run() {
	for {
		nc, err := p.Accept()
		if err != nil {
			return
		}
		p.served.Go(func() { p.serveConn(nc) })
	}
}

func (p *revision1Peer) serveConn(nc net.Conn) {
	defer nc.Close()
	req, err := readRequest(nc)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.requests = append(p.requests, req)
	p.mu.Unlock()
	switch {
	case req.Rev == mpa.Rev1 && !p.rejectsRev1:
		_, _ = nc.Write(plainFrame(true, 0))
	case p.reply != nil:
		_, _ = nc.Write(p.reply)
	case p.reset:
		_ = nc.(*net.TCPConn).SetLinger(0)
		return
	default:
		return
	}
	_, _ = io.Copy(io.Discard, nc)
}

// TestFallback checks that an initiator falls back to revision 1 if the
// responder knows no other, unless the initiator needs a feature that revision
// 1 lacks (R6581-10-5, R6581-10-6, R6581-6-3).
func TestFallback(t *testing.T) {
	for name, tt := range map[string]struct {
		peer oldPeerBehavior
		cfg  Config
		revs []uint8 // in the requests
		err  error
	}{
		"closes":             {oldPeerBehavior{}, Config{}, []uint8{2, 1}, nil},
		"resets":             {oldPeerBehavior{reset: true}, Config{}, []uint8{2, 1}, nil},
		"answers unenhanced": {oldPeerBehavior{reply: plainFrame(true, 0)}, Config{}, []uint8{2, 1}, nil},
		"knows neither":      {oldPeerBehavior{rejectsRev1: true}, Config{}, []uint8{2, 1}, errNoReply},
		"peer-to-peer":       {oldPeerBehavior{}, Config{PeerToPeer: true}, []uint8{2}, errNoReply},
		"revision 1 alone":   {oldPeerBehavior{}, Config{Unenhanced: true}, []uint8{1}, nil},
		"deaf to it":         {oldPeerBehavior{rejectsRev1: true}, Config{Unenhanced: true}, []uint8{1}, errNoReply},
		"rejects":            {oldPeerBehavior{reply: enhancedFrame(true, 0x30, 1, 1)}, Config{}, []uint8{2}, mpa.ErrRejected},
		"answers rubbish":    {oldPeerBehavior{reply: make([]byte, 100)}, Config{}, []uint8{2}, mpa.ErrKey},
		"answers in part":    {oldPeerBehavior{reply: enhancedFrame(true, 0x10, 1, 1)[:19]}, Config{StartupTimeout: 10 * time.Millisecond}, []uint8{2}, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			p := newRevision1Peer(t, tt.peer)
			c, err := deviceWith(tt.cfg).Dial(t.Context(), p.Addr().String(), rdma.ConnConfig{Handler: newInbox(), PrivateData: []byte("me")})
			if c != nil {
				assert.Equal(t, mpa.Params{Rev: 1, CRC: true, IRD: 128, ORD: 128}, c.(*Conn).Params())
				c.Abort(net.ErrClosed)
				require.NoError(t, c.Close())
			}
			var rejected *RejectedError
			switch {
			case tt.err == nil:
				require.NoError(t, err)
			case errors.Is(tt.err, mpa.ErrRejected):
				require.ErrorAs(t, err, &rejected)
			case isTimeout(tt.err):
				require.True(t, isTimeout(err), "%v", err)
			default:
				require.ErrorIs(t, err, tt.err)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			var revs []uint8
			for _, req := range p.requests {
				revs = append(revs, req.Rev)
				assert.Equal(t, "me", string(req.PrivateData))
			}
			assert.Equal(t, tt.revs, revs)
		})
	}
}

// readHook is a connection that calls a hook before each Read.
type readHook struct {
	net.Conn
	read func()
}

func (h readHook) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	h.read()
	return n, err
}

// TestGiveUpAfterReply checks that an initiator that gives up after the reply
// sends a Terminate before it closes (R6581-8-1, R6581-9.3-1).
func TestGiveUpAfterReply(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, markers := range []bool{false, true} {
			checkLeaks(t)
			a, b := ncPair(t, false)
			ctx, cancel := context.WithCancelCause(t.Context())
			cause, reads := errors.New("enough"), 0
			hook := readHook{a, func() {
				if reads++; reads == 2 { // header and private data
					cancel(cause)
				}
			}}
			result := make(chan error, 1)
			go func() {
				_, err := deviceWith(Config{CRC: mpa.CRCOff}).Client(ctx, hook, rdma.ConnConfig{Handler: newInbox()})
				result <- err
			}()
			p := &rawPeer{t: t, nc: b, crc: crc}
			p.from.Markers = markers
			p.readBytes(mpa.HeaderLen + mpa.EnhancedLen)
			p.writeBytes(mpa.Frame{Reply: true, Rev: 2, CRC: crc, Markers: markers, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 1, ORD: 1}}.AppendTo(nil))
			segment := p.readSegment()
			assert.ErrorIs(t, parseTerminate(t, segment).Cause, mpa.ErrLocal)
			p.nc.Close()
			require.ErrorIs(t, <-result, cause)
		}
	}
}
