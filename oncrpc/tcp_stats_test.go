package oncrpc

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPeerInLog checks that a peer is one word in a log of any format.
func TestPeerInLog(t *testing.T) {
	var out bytes.Buffer
	p := &Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: "rdma", Cut: func(error) {}}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("here", "peer", p)
	assert.Contains(t, out.String(), `"peer":"rdma 192.0.2.1:700"`)
	out.Reset()
	slog.New(slog.NewTextHandler(&out, nil)).Info("here", "peer", p)
	assert.Contains(t, out.String(), `peer="rdma 192.0.2.1:700"`)
}

func TestServerStats(t *testing.T) {
	s := &Server{Handler: newLendMux(), MaxConns: 2, Log: discardLogger()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		busy := l.dialFrom(1)
		sendLendCall(t, busy, 1)
		sendLendCall(t, busy, 2)
		second := l.dialFrom(1)
		synctest.Wait()
		conns := s.Connections()
		require.Len(t, conns, 2)
		assert.Equal(t, "198.51.100.1:1000", conns[0].Peer.String())
		assert.EqualValues(t, 2, conns[0].Calls+conns[1].Calls)
		assert.Equal(t, 2, conns[0].InFlight+conns[1].InFlight)
		got := s.Stats()
		assert.Equal(t, Totals{Now: 2, Total: 2}, got.Totals)
		assert.Equal(t, Memory{0, memoryLimit}, got.Requests)
		assert.Equal(t, Memory{2 * quarter, memoryLimit}, got.Replies)
		assert.Zero(t, got.Waiting)

		newcomer := l.dialFrom(2) // takes the place of the second
		sendLendCall(t, newcomer, 1)
		refused := l.dialFrom(2)
		synctest.Wait()
		got = s.Stats()
		assert.Equal(t, Totals{Now: 2, Total: 3, Refused: 1, Replaced: 1}, got.Totals)
		for _, nc := range []net.Conn{busy, second, newcomer, refused} {
			nc.Close()
		}
		synctest.Wait()
		assert.Equal(t, Totals{Total: 3, Refused: 1, Replaced: 1}, s.Stats().Totals)
	})
}
