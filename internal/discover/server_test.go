package discover

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma/roce"
)

const (
	here  = "192.0.2.1" // the server
	there = "192.0.2.2" // a client
)

var server = netip.MustParseAddr(here)

func describeExports(exports ...string) func() Description {
	return func() Description {
		return Description{RDMA: netip.MustParseAddrPort("0.0.0.0:20049"), Host: "h", Version: "v", Exports: exports}
	}
}

// startServer serves until the end of the test, or until the server is closed.
func startServer(t testing.TB, dev *roce.Device, cfg Config) *Server {
	if cfg.Describe == nil {
		cfg.Describe = describeExports("/a")
	}
	cfg.Log = slog.New(slog.DiscardHandler)
	s, err := Serve(dev, cfg)
	require.NoError(t, err)
	return s
}

func openPort(t testing.TB, dev *roce.Device) *Port {
	p, err := NewPort(dev)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// TestFind checks that a server is found by its address, and all servers by
// their group, with any number of exports.
func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork()
		var many []string
		for i := range 500 {
			many = append(many, fmt.Sprintf("/export/number/%d", i))
		}
		many[250] = strings.Repeat("x", 1000)
		a := startServer(t, n.newDevice(t, here), Config{Describe: describeExports(many...)})
		defer a.Close()
		b := startServer(t, n.newDevice(t, "192.0.2.9"), Config{})
		defer b.Close()
		p := openPort(t, n.newDevice(t, there))
		began := time.Now()
		list, err := p.Find(t.Context(), server)
		require.NoError(t, err)
		assert.Zero(t, time.Since(began), "complete after the last announcement")
		many = append([]string(nil), many...)
		many[250] = "" // too long for a datagram
		require.Len(t, list, 1)
		want := Found{
			Addr: server, Boot: a.Boot(), Since: time.UnixMilli(began.UnixMilli()), RDMA: netip.MustParseAddrPort(here + ":20049"),
			TCP: netip.AddrPortFrom(netip.IPv6Unspecified(), 0), Host: "h", Version: "v", Exports: many, Total: 500,
		}
		want.TCP = list[0].TCP
		assert.Equal(t, want, list[0])
		assert.Zero(t, want.TCP.Port())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		list, err = p.Find(ctx, Group(server))
		require.NoError(t, err)
		require.Len(t, list, 2)
		assert.Equal(t, many, list[0].Exports)
		assert.Equal(t, b.Boot(), list[1].Boot)

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.Find(ctx, netip.MustParseAddr("192.0.2.77"))
		assert.ErrorIs(t, err, ErrNoAnswer)
	})
}

// TestFindOnBadNetwork checks that lost answers are requested again, and that
// duplicates have no effect.
func TestFindOnBadNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork()
		var many []string
		for i := range 200 {
			many = append(many, fmt.Sprintf("/export/number/%d", i))
		}
		s := startServer(t, n.newDevice(t, here), Config{Describe: describeExports(many...)})
		defer s.Close()
		p := openPort(t, n.newDevice(t, there))
		random := rand.New(rand.NewPCG(1, 1))
		n.mu.Lock()
		n.fate = func() int { return random.IntN(3) } // none, one, or two
		n.mu.Unlock()
		for range 20 {
			list, err := p.Find(t.Context(), server)
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Equal(t, many, list[0].Exports)
		}
	})
}

// TestNotice checks that every registered client is notified of a restart at once
// in spite of losses, and that an unregistered client is not.
func TestNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork()
		dev, far := n.newDevice(t, here), n.newDevice(t, there)
		var saved []byte
		cfg := Config{Save: func(b []byte) error { saved = b; return nil }}
		s := startServer(t, dev, cfg)
		var heard atomic.Int32
		p := openPort(t, far)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Attend(ctx, server, func() { heard.Add(1) }) }()
		time.Sleep(time.Second)
		assert.Equal(t, 1, s.Stats().Clients)
		assert.NotNil(t, saved, "a killed server has saved it")
		for i := range 5 {
			s.Close()
			time.Sleep(time.Hour)
			n.mu.Lock()
			if sent := i; i > 0 { // the first network is good
				n.fate = func() int {
					sent++
					return sent % 3
				}
			}
			n.mu.Unlock()
			cfg.Clients = saved
			s = startServer(t, dev, cfg)
			time.Sleep(20 * time.Second)
			assert.EqualValues(t, i+1, heard.Load(), "once for any number of notices")
			if i == 0 {
				assert.EqualValues(t, 1, s.Stats().Notices, "an informed client gets no more notices")
			}
		}
		n.mu.Lock()
		n.fate = nil
		n.mu.Unlock()
		time.Sleep(time.Hour) // so that its cookie expires
		stop()
		assert.NoError(t, <-ended)
		synctest.Wait()
		assert.Zero(t, s.Stats().Clients)
		s.Close()
		cfg.Clients = saved
		s = startServer(t, dev, cfg)
		defer s.Close()
		time.Sleep(time.Minute)
		assert.Zero(t, s.Stats().Notices)
	})
}

// TestClientsOfTheLastTime checks that lost clients of the last run get a limited
// number of notices, and are removed after a day. An invalid clients file counts as
// empty.
func TestClientsOfTheLastTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork()
		dev := n.newDevice(t, here)
		var table clientTable
		_, ok := table.addOrRenew(registeredClient{Addr: netip.MustParseAddr(there), QP: 9, Until: time.Now().Add(registrationTime)})
		assert.True(t, ok)
		s := startServer(t, dev, Config{Clients: table.encode()})
		time.Sleep(time.Minute)
		assert.EqualValues(t, len(noticeTimes), s.Stats().Notices)
		assert.Equal(t, 1, s.Stats().Clients)
		time.Sleep(registrationTime)
		assert.Zero(t, s.Stats().Clients)
		s.Close()
		for _, bad := range []string{"x", `[{}]`, `[{"addr":"192.0.2.2","qp":16777216}]`} {
			s := startServer(t, dev, Config{Clients: []byte(bad)})
			assert.Zero(t, s.Stats().Clients, bad)
			s.Close()
		}
	})
}

// TestForgedNotice checks that only a notice with the client's token, from the
// server, is accepted.
func TestForgedNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork()
		s := startServer(t, n.newDevice(t, here), Config{})
		defer s.Close()
		var heard atomic.Int32
		p := openPort(t, n.newDevice(t, there))
		a := registration{Port: p, server: server, restarted: func() { heard.Add(1) }, token: 5}
		require.NoError(t, a.register(t.Context()))
		incoming := func(from netip.Addr, boot, token uint64) *serverMessage {
			b := noticeBody{token}.AppendTo(replyHeader{Kind: kindNotice, Boot: boot}.AppendTo(nil))
			r, body, err := parseReply(b)
			require.NoError(t, err)
			return &serverMessage{r, from, body}
		}
		assert.False(t, a.isNewNotice(incoming(server, s.Boot()+1, 6)), "another token")
		assert.False(t, a.isNewNotice(incoming(netip.MustParseAddr(there), s.Boot()+1, 5)), "another address")
		assert.False(t, a.isNewNotice(incoming(server, s.Boot(), 5)), "no more calls")
		assert.Zero(t, heard.Load())
		assert.True(t, a.isNewNotice(incoming(server, s.Boot()+1, 5)))
		assert.EqualValues(t, 1, heard.Load())
	})
}
