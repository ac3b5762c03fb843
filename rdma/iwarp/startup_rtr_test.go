package iwarp

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestRTR checks that the initiator sends the RTR indication that the responder
// chose, before anything else (R6581-5-2, R6581-9.2-7; R6581-8-1), or a
// Terminate if the responder chose none.
func TestRTR(t *testing.T) {
	for name, tt := range map[string]struct {
		ird, ord uint16 // words in the reply
		rtr      []byte
		msn      uint32 // the Send after the RTR has it
		ends     bool
	}{
		"Send":               {0xc008, 8, sendSeg(true, 1, 0, nil), 2, false},
		"Write":              {0x8008, 0x8008, writeSeg(true, 0, 0, nil), 1, false},
		"Read":               {0x8008, 0x4008, requestSeg(1, rdmap.ReadRequest{SinkSTag: 5, SinkTO: 1 << 32}), 1, false},
		"all":                {0xc008, 0xc008, writeSeg(true, 0, 0, nil), 1, false},
		"none":               {0x8008, 8, nil, 0, true}, // R6581-9.2-8
		"not peer-to-peer":   {0x4008, 0xc008, nil, 0, true},
		"Read without depth": {0x8000, 0x4008, nil, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			p, req, result := rawResponder(t, Config{CRC: mpa.CRCOff, PeerToPeer: true}, rdma.ConnConfig{Handler: newInbox(), Recvs: 1})
			require.True(t, req.Enhanced.PeerToPeer)
			p.writeBytes(enhancedFrame(true, 0x10, tt.ird, tt.ord))
			if tt.ends {
				assert.ErrorIs(t, p.readTerminate().Cause, mpa.ErrRTR)
				require.ErrorIs(t, (<-result).closeResult(t), mpa.ErrRTR)
				return
			}
			got := <-result
			require.NoError(t, got.err)
			require.NoError(t, got.c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{{1}}}))
			rtr := p.readSegment()
			if name == "Read" {
				rtr = withWord(rtr, 18, 5) // the sink STag is random
				p.sendSegments(responseSeg(true, 0, 0, nil))
			}
			assert.Equal(t, tt.rtr, rtr)
			assert.Equal(t, sendSeg(true, tt.msn, 0, []byte{1}), p.readSegment())
			require.NoError(t, got.closeResult(t))
		})
	}
}

// TestPeerToPeer checks that our initiator and our responder agree on an RTR
// indication.
func TestPeerToPeer(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{initiator: Config{PeerToPeer: true}, recvs: 1})
	assert.True(t, a.Params().PeerToPeer)
	assert.True(t, b.Params().PeerToPeer)
	sendFirst(t, a, b)
}

// TestTwoInitiators checks that two initiators do not wait for each other.
func TestTwoInitiators(t *testing.T) {
	checkLeaks(t)
	a, b := ncPair(t, false)
	results := make(chan error, 2)
	for _, nc := range []net.Conn{a, b} {
		go func() {
			_, err := testDevice.Client(context.Background(), nc, rdma.ConnConfig{Handler: newInbox()})
			results <- err
		}()
	}
	for range 2 { // the slower end may see the connection close instead
		err := <-results
		require.True(t, errors.Is(err, mpa.ErrInitiator) || errors.Is(err, io.EOF) || isReset(err), "%v", err)
	}
}

// TestReplyTimeout checks that the initiator gives up in time on a responder
// that sends nothing or sends too slowly (R5044-7.1.2-10-1).
func TestReplyTimeout(t *testing.T) {
	for _, step := range []time.Duration{0, 600 * time.Millisecond, 220 * time.Millisecond} { // 0: silent; the last: too slow only after the header
		synctest.Test(t, func(t *testing.T) {
			a, b := net.Pipe()
			reader := runAsync(func() { _, _ = io.Copy(io.Discard, b) })
			if step > 0 {
				writer := runAsync(func() {
					for _, c := range wiretest.Hex(t, "mpa/testdata/reply-siw.hex") {
						time.Sleep(step)
						if _, err := b.Write([]byte{c}); err != nil {
							return
						}
					}
				})
				defer func() { <-writer }()
			}
			start := time.Now()
			_, err := testDevice.Client(t.Context(), a, rdma.ConnConfig{Handler: newInbox()})
			require.True(t, isTimeout(err))
			assert.Equal(t, defaultStartup, time.Since(start))
			<-reader
			b.Close()
		})
	}
}

// TestReplyCut checks that the reply may end at every byte.
func TestReplyCut(t *testing.T) {
	checkLeaks(t)
	reply := wiretest.Hex(t, "mpa/testdata/reply-siw.hex")
	for n := range len(reply) {
		p, _, result := rawResponder(t, Config{}, rdma.ConnConfig{Handler: newInbox()})
		p.writeBytes(reply[:n])
		p.nc.Close()
		require.Error(t, (<-result).closeResult(t))
	}
}

// TestDialContext checks that Client ends with its context and returns the
// context's cause, and that Dial fails under an ended context.
func TestDialContext(t *testing.T) {
	checkLeaks(t)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	a, b := ncPair(t, false)
	defer b.Close()
	time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
	_, err := testDevice.Client(ctx, a, rdma.ConnConfig{Handler: newInbox()})
	require.ErrorIs(t, err, cause)
	_, err = testDevice.Dial(ctx, "127.0.0.1:1", rdma.ConnConfig{Handler: newInbox()})
	require.Error(t, err)
}

// TestDialListen checks that Dial reaches a listener from Listen, by IPv4 and
// by IPv6.
func TestDialListen(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		checkLeaks(t)
		ln, err := testDevice.Listen("tcp", addr)
		require.NoError(t, err)
		in := newInbox()
		dialed := runAsyncErr(func() error {
			c, err := testDevice.Dial(t.Context(), ln.Addr().String(), rdma.ConnConfig{Handler: in})
			if err != nil {
				return err
			}
			assert.Equal(t, ln.Addr(), c.RemoteAddr())
			return c.Close()
		})
		e := acceptPeer(t, ln, rdma.ConnConfig{})
		assert.Equal(t, ln.Addr(), e.LocalAddr())
		require.NoError(t, <-dialed)
		require.ErrorIs(t, in.closeError(t), io.EOF)
		require.ErrorIs(t, e.inbox.closeError(t), io.EOF)
		require.NoError(t, ln.Close())
	}
}
