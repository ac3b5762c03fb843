package rpcrdma

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// roundTrips is more time than a connection and a call take in memory.
const roundTrips = 20 * time.Millisecond

// TestClientHint checks that a hint ends the pause between attempts, however long
// it has become.
func TestClientHint(t *testing.T) {
	withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		p.killServer()
		done := startCalls(t, t.Context(), l, 3)
		time.Sleep(time.Hour)
		for n := len(p.dialTimes()); n == len(p.dialTimes()); { // the next attempt is then at least half of maxPause away
			time.Sleep(time.Millisecond)
		}
		p.startServer()
		began := time.Now()
		l.Hint()
		for range 3 {
			assert.NoError(t, <-done)
		}
		assert.Less(t, time.Since(began), roundTrips)
	})
}

// TestClientHintUnwanted checks that a hint that arrives while no call wants a
// connection is kept for the next one.
func TestClientHintUnwanted(t *testing.T) {
	withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		p.killServer()
		ctx, cancel := context.WithCancel(t.Context())
		done := startCalls(t, ctx, l, 1)
		time.Sleep(time.Hour)
		for n := len(p.dialTimes()); n == len(p.dialTimes()); {
			time.Sleep(time.Millisecond)
		}
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
		synctest.Wait()
		p.startServer()
		l.Hint()
		synctest.Wait()
		began := time.Now()
		assert.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		assert.Less(t, time.Since(began), roundTrips)
	})
}

// TestClientHintSilent checks that a hint ends a connection to a server that has
// vanished silently, long before the Silence limit does.
func TestClientHintSilent(t *testing.T) {
	withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		for _, waited := range []time.Duration{0, defaultSilence * 3 / 4} { // the Client itself asks by then
			time.Sleep(time.Hour)
			resume := p.lastServerConn().Pause()
			done := startCalls(t, t.Context(), l, 5)
			time.Sleep(waited)
			began := time.Now()
			l.Hint()
			for range 5 {
				assert.NoError(t, <-done)
			}
			assert.InDelta(t, hintTime, time.Since(began), float64(roundTrips))
			resume()
		}
		assert.Equal(t, 3, p.connCount())
	})
}

// A hangingDialer is a dialer that blocks while hangs is set.
type hangingDialer struct {
	*testAddress
	hangs atomic.Bool
}

func (d *hangingDialer) Dial(ctx context.Context, addr string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	if d.hangs.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return d.testAddress.Dial(ctx, addr, cfg)
}

// TestClientHintDialing checks that a hint ends an attempt to connect that began
// without a server: TCP would repeat its first packet seconds later.
func TestClientHintDialing(t *testing.T) {
	withClient(t, ClientConfig{}, func(t *testing.T, _ *Client, p *testAddress) {
		d := &hangingDialer{testAddress: p}
		l, err := Dial(t.Context(), d, "", ClientConfig{Log: testLog(t)})
		require.NoError(t, err)
		d.hangs.Store(true)
		time.Sleep(steadyTime)
		p.lastConn().Abort(rdma.ErrClosed)
		done := startCalls(t, t.Context(), l, 2)
		time.Sleep(dialTime / 3)
		d.hangs.Store(false)
		began := time.Now()
		l.Hint()
		for range 2 {
			assert.NoError(t, <-done)
		}
		assert.Less(t, time.Since(began), roundTrips)
		require.NoError(t, l.Close())
	})
}

// TestClientHintForged checks that false hints cost a NULL call every few
// seconds, and no connection.
func TestClientHintForged(t *testing.T) {
	withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		time.Sleep(hintPause)
		before := l.Conn().received.Load()
		for range 1000 {
			l.Hint()
			time.Sleep(hintPause / 100)
			synctest.Wait()
		}
		assert.EqualValues(t, 10, l.Conn().received.Load()-before)
		assert.Equal(t, 1, p.connCount())

		p.program.hold = make(chan struct{}) // while calls take long
		done := startCalls(t, t.Context(), l, 3)
		time.Sleep(hintPause)
		l.Hint()
		time.Sleep(hintPause)
		assert.Equal(t, 1, p.connCount())
		close(p.program.hold)
		for range 3 {
			assert.NoError(t, <-done)
		}
	})
}

// TestClientHintNoCredit checks the same if slow calls have all credits, so that
// the server cannot be asked.
func TestClientHintNoCredit(t *testing.T) {
	const credits = 3
	withClient(t, ClientConfig{Conn: ClientConnConfig{Credits: credits}}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		p.program.hold = make(chan struct{})
		done := startCalls(t, t.Context(), l, credits)
		time.Sleep(hintPause)
		for range 3 {
			l.Hint()
			time.Sleep(hintPause)
		}
		assert.Equal(t, 1, p.connCount())
		close(p.program.hold)
		for range credits {
			assert.NoError(t, <-done)
		}
	})
}
