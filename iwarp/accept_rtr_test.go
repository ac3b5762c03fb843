package iwarp

import (
	"context"
	"math"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// Each kind of RTR indication lets the responder send, and takes none of the
// upper layer's buffers (R6581-9.2-2).
func TestAcceptRTR(t *testing.T) {
	read := requestSeg(1, rdmap.ReadRequest{SinkSTag: 1, SinkTO: 2, SourceSTag: 0xdeadbeef, SourceTO: math.MaxUint64})
	for name, tt := range map[string]struct {
		ird, ord uint16 // words of the request
		rtr      []byte
		answer   []byte
		msn      uint32 // of the next Send
	}{
		"Send":  {0xc008, 0, sendSeg(true, 1, 0, nil), nil, 2},
		"Write": {0x8008, 0x8000, writeSeg(true, 1, 0, nil), nil, 1},
		"Read":  {0x8008, 0x4000, read, responseSeg(true, 1, 2, nil), 1}, // R6581-9.1-4
	} {
		t.Run(name, func(t *testing.T) {
			world(t)
			ln, p := rawInitiator(t, Config{CRC: mpa.CRCOff})
			p.write(enhanced(false, 0x10, tt.ird, tt.ord))
			e := accept(t, ln, rdma.ConnConfig{})
			want := enhanced(true, 0x10, tt.ird&0xc000, tt.ord|8)
			if name == "Read" {
				want[21] = 1
			}
			assert.Equal(t, want, p.read(len(want)))
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("hello")}}))
			p.nothing(10 * time.Millisecond)
			p.send(tt.rtr)
			if tt.answer != nil {
				// The answer and what waited go in either order.
				first, second := p.segment(), p.segment()
				assert.ElementsMatch(t, [][]byte{tt.answer, sendSeg(true, 1, 0, []byte("hello"))}, [][]byte{first, second})
			} else {
				assert.Equal(t, sendSeg(true, 1, 0, []byte("hello")), p.segment())
			}
			require.NoError(t, e.PostRecv(1))
			p.send(sendSeg(true, tt.msn, 0, nil)) // this one is for the upper layer
			assert.Empty(t, e.in.next(t))
		})
	}
}

// In the client-server model a first Send without octets is the upper layer's.
func TestAcceptEmptySend(t *testing.T) {
	world(t)
	ln, p := rawInitiator(t, Config{CRC: mpa.CRCOff})
	p.write(wiretest.Hex(t, "mpa/testdata/request-siw.hex"))
	e := accept(t, ln, rdma.ConnConfig{Recvs: 1})
	p.read(mpa.HeaderLen + mpa.EnhancedLen)
	p.send(sendSeg(true, 1, 0, nil))
	assert.Empty(t, e.in.next(t))
}

// The request as a whole has a time limit, however it dawdles (R5044-7.1.2-8-2,
// R5044-7.1.2-10-1).
func TestAcceptTimeout(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second} {
		for _, step := range []time.Duration{0, 600 * time.Millisecond} { // 0: silent
			synctest.Test(t, func(t *testing.T) {
				pl := newPipeListener()
				ln := NewListener(pl, Config{StartupTimeout: limit})
				nc, err := pl.dial()
				require.NoError(t, err)
				var dawdling sync.WaitGroup
				defer dawdling.Wait()
				if step > 0 {
					dawdling.Go(func() {
						for _, b := range wiretest.Hex(t, "mpa/testdata/request-siw.hex") {
							time.Sleep(step)
							if _, err := nc.Write([]byte{b}); err != nil {
								return
							}
						}
					})
				}
				start := time.Now()
				_, err = nc.Read(make([]byte, 1))
				require.Error(t, err)
				want := limit
				if want == 0 {
					want = defaultStartup
				}
				assert.Equal(t, want, time.Since(start))
				require.NoError(t, ln.Close())
				nc.Close()
			})
		}
	}
}

// Closing a listener cuts off who is not accepted, frees Accept, and waits for
// nobody.
func TestListenerClose(t *testing.T) {
	world(t)
	ln, silent := rawInitiator(t, Config{})
	waiting, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer waiting.Close()
	require.NoError(t, writeFrame(waiting, mpa.NewRequest(mpa.Local{})))
	require.NoError(t, ln.Close())
	require.NoError(t, ln.Close())
	_, err = ln.Accept(context.Background())
	require.ErrorIs(t, err, rdma.ErrClosed)
	for _, nc := range []net.Conn{silent.nc, waiting} {
		_ = nc.SetReadDeadline(time.Now().Add(patience))
		_, err := nc.Read(make([]byte, 1))
		require.Error(t, err)
		require.False(t, isTimeout(err))
	}
}

// brokenListener fails as a listener does that has lost its socket, after some
// failures that pass.
type brokenListener struct {
	net.Listener
	passing int
}

type passingError struct{}

func (passingError) Error() string   { return "too many open files" }
func (passingError) Temporary() bool { return true }

func (l *brokenListener) Accept() (net.Conn, error) {
	if l.passing--; l.passing >= 0 {
		return nil, passingError{}
	}
	return nil, net.ErrClosed
}

// A failure that passes is waited out, another one ends the listener and
// Accept tells it.
func TestListenerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ln := NewListener(&brokenListener{newPipeListener(), 3}, Config{})
		_, err := ln.Accept(t.Context())
		require.ErrorIs(t, err, rdma.ErrClosed)
		require.ErrorIs(t, err, net.ErrClosed)
		assert.Equal(t, 3*acceptPause, time.Since(start))
		require.NoError(t, ln.Close())
	})
}

// Accept ends with its context.
func TestAcceptContext(t *testing.T) {
	world(t)
	ln, _ := rawInitiator(t, Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(net.ErrWriteToConnected)
	_, err := ln.Accept(ctx)
	require.ErrorIs(t, err, net.ErrWriteToConnected)
}
