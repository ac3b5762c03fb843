package iwarp

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// TestAcceptTimeout checks that the whole request has a time limit, even if the
// peer keeps sending slowly (R5044-7.1.2-8-2, R5044-7.1.2-10-1).
func TestAcceptTimeout(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second} {
		for _, step := range []time.Duration{0, 600 * time.Millisecond, 220 * time.Millisecond} { // 0: silent; the last: too slow only after the header
			synctest.Test(t, func(t *testing.T) {
				pl := newPipeListener()
				ln := deviceWith(Config{StartupTimeout: limit}).NewListener(pl)
				nc, err := pl.dialPipe()
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

// TestListenerClose checks that closing a listener disconnects peers that are
// not accepted yet, ends Accept, and waits for no peer.
func TestListenerClose(t *testing.T) {
	checkLeaks(t)
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
		_ = nc.SetReadDeadline(time.Now().Add(testTimeout))
		_, err := nc.Read(make([]byte, 1))
		require.Error(t, err)
		require.False(t, isTimeout(err))
	}
}

// brokenListener fails like a listener that has lost its socket, after some
// temporary failures.
type brokenListener struct {
	net.Listener
	temporaryErrors int
}

type temporaryError struct{}

func (temporaryError) Error() string   { return "too many open files" }
func (temporaryError) Temporary() bool { return true }

func (l *brokenListener) Accept() (net.Conn, error) {
	if l.temporaryErrors--; l.temporaryErrors >= 0 {
		return nil, temporaryError{}
	}
	return nil, net.ErrClosed
}

// TestListenerFails checks that a temporary failure is retried after a pause,
// and that any other failure ends the listener and is returned by Accept.
func TestListenerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ln := testDevice.NewListener(&brokenListener{newPipeListener(), 3})
		_, err := ln.Accept(t.Context())
		require.ErrorIs(t, err, rdma.ErrClosed)
		require.ErrorIs(t, err, net.ErrClosed)
		assert.Equal(t, 3*acceptPause, time.Since(start))
		require.NoError(t, ln.Close())
	})
}

// TestAcceptContext checks that Accept ends with its context.
func TestAcceptContext(t *testing.T) {
	checkLeaks(t)
	ln, _ := rawInitiator(t, Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(net.ErrWriteToConnected)
	_, err := ln.Accept(ctx)
	require.ErrorIs(t, err, net.ErrWriteToConnected)
}

// TestListenerCloseSparesAccepted checks that an accepted connection survives
// its listener's end.
func TestListenerCloseSparesAccepted(t *testing.T) {
	checkLeaks(t)
	for range 50 {
		tl, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ln := testDevice.NewListener(tl)
		nc, err := net.Dial("tcp", tl.Addr().String())
		require.NoError(t, err)
		require.NoError(t, writeFrame(nc, mpa.NewRequest(mpa.Local{IRD: 1})))
		r, err := ln.Accept(t.Context())
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		require.NoError(t, r.Reject(nil))
		_, err = readReply(nc)
		require.NoError(t, err)
		nc.Close()
	}
}

// TestRequestCut checks that the request may end at every byte (R5044-7.1.1-19,
// R5044-7.1.2-2-1, R5044-7.1.2-2-2, R5044-7.1.2-9-1).
func TestRequestCut(t *testing.T) {
	checkLeaks(t)
	ln, p := rawInitiator(t, Config{})
	request := wiretest.Hex(t, "mpa/testdata/request-siw.hex")
	for n := range len(request) {
		p.writeBytes(request[:n])
		require.NoError(t, p.nc.(*net.TCPConn).CloseWrite())
		p.expectEnd()
		p.nc.Close()
		var err error
		p.nc, err = net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
	}
}
