package discover

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce"
)

// never has no streams.
type never struct{ asked int }

func (n *never) watch(roce.Source, Watch, time.Time) (Watching, Reason) {
	n.asked++
	return Watching{}, RefusedRoom
}

func responder() (*Responder, *never) {
	s := new(never)
	return newResponder(7, time.Unix(1000, 0), describe("/a", "/b", "/c/d/e/f/g/h"), s), s
}

func request(k Kind, cookie uint64, m body, length int) []byte {
	return pad(m.AppendTo(Request{Kind: k, ID: 1, QKey: 2, Cookie: cookie}.AppendTo(nil)), length)
}

func from(i int) roce.Source {
	return roce.Source{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), QP: 3}
}

// TestNoAmplification checks that no answer is longer than its request, so that
// a forged source gives no amplification.
func TestNoAmplification(t *testing.T) {
	r, _ := responder()
	now := time.Unix(2000, 0)
	for i, m := range []struct {
		k Kind
		m body
	}{{KindQuery, Query{}}, {KindQuery, Query{1 << 31}}, {KindRegister, Register{}}, {KindWatch, Watch{}}} {
		for length := range maxMessage + 100 {
			src := from(i<<16 + length)
			for _, cookie := range []uint64{0, r.baker.cookie(src, now)} {
				b := request(m.k, cookie, m.m, length)
				out, _ := r.answer(b, src, now)
				assert.LessOrEqual(t, len(out), min(len(b), maxMessage))
				assert.False(t, len(b) < minRequest && out != nil)
			}
			now = now.Add(time.Second)
		}
	}
}

// TestRate checks that answers are bounded, per address and in total, and that
// clients with a cookie are not kept out by those without.
func TestRate(t *testing.T) {
	r, _ := responder()
	now := time.Unix(2000, 0)
	ask := func(i int, cookie uint64) bool {
		out, _ := r.answer(request(KindQuery, cookie, Query{}, maxMessage), from(i), now)
		return out != nil
	}
	for range answersPerAddress {
		require.True(t, ask(1, 0))
	}
	assert.False(t, ask(1, 0))
	answered := 0
	for i := range 10 * answersPerSecond {
		if ask(i+2, 0) {
			answered++
		}
	}
	assert.Equal(t, answersPerSecond-answersPerAddress, answered)
	assert.True(t, ask(1, r.baker.cookie(from(1), now)), "it has a cookie")
	assert.False(t, ask(2, r.baker.cookie(from(1), now)), "another server's announcement")
	assert.LessOrEqual(t, len(r.unproven.of), answersPerSecond, "the remembered set is bounded too")
	now = now.Add(time.Second)
	assert.True(t, ask(1, 0))
	assert.Equal(t, r.totals.Dropped, uint64(1+10*answersPerSecond-answered+1))
}

// TestCookie checks that a request that makes the server store or send
// something needs a recent cookie of its address and queue pair.
func TestCookie(t *testing.T) {
	r, streams := responder()
	now := time.Unix(2000, 0)
	for k, m := range map[Kind]body{KindRegister: Register{}, KindWatch: Watch{}} {
		ask := func(src roce.Source, cookie uint64, now time.Time) Kind {
			out, _ := r.answer(request(k, cookie, m, minRequest), src, now)
			p, _, err := ParseReply(out)
			require.NoError(t, err)
			return p.Kind
		}
		other := from(1)
		other.QP++
		good := r.baker.cookie(from(1), now)
		for _, bad := range []struct {
			src    roce.Source
			cookie uint64
			at     time.Time
		}{{from(1), 0, now}, {from(1), good + 2, now}, {from(2), good, now}, {other, good, now}, {from(1), good, now.Add(2 * cookieTime)}} {
			assert.Equal(t, KindRefused, ask(bad.src, bad.cookie, bad.at))
		}
		assert.Empty(t, r.clients.m)
		assert.Zero(t, streams.asked)
		granted := ask(from(1), good, now.Add(cookieTime))
		if k == KindRegister {
			assert.Equal(t, KindRegistered, granted)
			assert.Len(t, r.clients.m, 1)
			delete(r.clients.m, place{from(1).Addr, 3})
		} else {
			assert.Equal(t, 1, streams.asked)
			streams.asked = 0
		}
	}
}

// TestClientsBounded checks that the clients are bounded, in total and per
// host; a host loses its oldest.
func TestClientsBounded(t *testing.T) {
	var table clientTable
	now := time.Unix(2000, 0)
	for i := range 3 * maxPerAddress {
		news, ok := table.add(client{Addr: from(1).Addr, QP: uint32(i), Until: now.Add(time.Duration(i))})
		require.True(t, news && ok)
	}
	assert.Len(t, table.m, maxPerAddress)
	for i := range maxPerAddress {
		assert.NotNil(t, table.m[place{from(1).Addr, uint32(2*maxPerAddress + i)}], "the last ones")
	}
	for i := range 2 * maxClients {
		table.add(client{Addr: from(2 + i).Addr, Until: now.Add(time.Hour)})
	}
	assert.Equal(t, maxClients, len(table.m))
	news, ok := table.add(client{Addr: from(2).Addr, Until: now.Add(time.Hour)})
	assert.True(t, ok, "known clients are renewed")
	assert.False(t, news)

	var back clientTable
	require.NoError(t, back.load(table.save(), now.Add(-time.Second)))
	assert.Equal(t, maxClients, len(back.m))
	back.expire(now.Add(time.Minute))
	assert.Equal(t, maxClients-maxPerAddress, len(back.m))
}

// network6 returns addresses of one IPv6 network, which is one party.
func network6(i int) roce.Source {
	return roce.Source{Addr: netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 14: byte(i >> 8), 15: byte(i)}), QP: 3}
}

// TestParties checks that a party with any number of addresses gets half of a
// total.
func TestParties(t *testing.T) {
	var table clientTable
	now := time.Unix(2000, 0)
	for i := range 2 * maxClients {
		_, ok := table.add(client{Addr: network6(i).Addr, Until: now.Add(time.Duration(i))})
		require.True(t, ok)
	}
	assert.Len(t, table.m, maxClients/2)
	_, ok := table.add(client{Addr: from(1).Addr, Until: now.Add(time.Hour)})
	assert.True(t, ok)
	assert.NotNil(t, table.m[place{network6(2*maxClients - 1).Addr, 0}], "the last ones stay")

	r, _ := responder()
	answered := func(src roce.Source) bool {
		out, _ := r.answer(request(KindQuery, 0, Query{}, maxMessage), src, now)
		return out != nil
	}
	for i := range 10 * answersPerSecond {
		assert.Equal(t, i < answersPerSecond/2, answered(network6(i)))
	}
	assert.True(t, answered(from(1)))
	assert.LessOrEqual(t, len(r.unproven.parties), answersPerSecond)
	now = now.Add(time.Second)
	assert.True(t, answered(network6(1)))
}

// TestSavedNowAndThen checks that clients that register repeatedly are saved
// periodically, independently of their rate.
func TestSavedNowAndThen(t *testing.T) {
	r, _ := responder()
	now := time.Unix(2000, 0)
	register := func(m Register) {
		out, _ := r.answer(request(KindRegister, r.baker.cookie(from(1), now), m, minRequest), from(1), now)
		p, _, err := ParseReply(out)
		require.NoError(t, err)
		require.Equal(t, KindRegistered, p.Kind)
	}
	register(Register{Token: 5})
	assert.NotNil(t, r.unsaved(now), "a new client at once")
	assert.Nil(t, r.unsaved(now.Add(time.Hour)), "no message since")
	saves := 0
	for range 600 { // of a tenth of a second
		now = now.Add(tendTime)
		register(Register{Token: 5})
		if r.unsaved(now) != nil {
			saves++
		}
	}
	assert.Equal(t, 1, saves)
	now = now.Add(newsTime)
	register(Register{Token: 6})
	assert.NotNil(t, r.unsaved(now), "a second mount of that host")
	register(Register{Leave: true})
	assert.Nil(t, r.unsaved(now), "too soon")
	now = now.Add(newsTime)
	assert.NotNil(t, r.unsaved(now))
	assert.Nil(t, r.unsaved(now.Add(time.Hour)))

	saves = 0
	for i := range 600 { // a mount that comes and goes
		now = now.Add(tendTime)
		register(Register{Token: 7, Leave: i%2 > 0})
		if r.unsaved(now) != nil {
			saves++
		}
	}
	assert.LessOrEqual(t, saves, 60)
	assert.Greater(t, saves, 30)
}

// TestSavedAgain checks that a failed save is repeated, at the rate of other
// saves, without another change.
func TestSavedAgain(t *testing.T) {
	r, _ := responder()
	now := time.Unix(2000, 0)
	tries, works := 0, false
	var log strings.Builder
	s := &Server{Responder: r, cfg: Config{
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Save: func([]byte) error {
			tries++
			if works {
				return nil
			}
			return errors.New("disk full")
		},
	}}
	later := func(d time.Duration) { // in steps of tend
		for end := now.Add(d); now.Before(end); s.save(now) {
			now = now.Add(tendTime)
		}
	}
	out, _ := r.answer(request(KindRegister, r.baker.cookie(from(1), now), Register{Token: 5}, minRequest), from(1), now)
	require.NotNil(t, out)
	later(10 * newsTime)
	assert.InDelta(t, 10, tries, 1)
	works, tries = true, 0
	later(10 * newsTime)
	assert.Equal(t, 1, tries)
	assert.Contains(t, log.String(), "disk full")
}

// TestFinderEnds checks that a finder ends with a server that numbers its
// answers correctly and always has more.
func TestFinderEnds(t *testing.T) {
	f := finder{Port: &Port{cookie: make(map[netip.Addr]uint64)}, to: server, id: 1, all: make(map[netip.Addr]*Found)}
	exports := make([]string, 60)
	for first := 0; first < 2*maxExports; first += len(exports) {
		a := Answer{Total: 1 << 31, First: uint32(first), Exports: exports}
		b, ok := a.AppendTo(Reply{Kind: KindAnswer, ID: 1}.AppendTo(nil), maxMessage)
		require.True(t, ok)
		r, body, err := ParseReply(b)
		require.NoError(t, err)
		s := f.take(&incoming{r, server, body})
		assert.Equal(t, first < maxExports, s != nil)
	}
	assert.Len(t, f.all[server].Exports, maxExports)
	assert.True(t, f.all[server].whole())
}

// FuzzResponder checks that the answer to any input is a valid message that is
// not longer, and that nothing is stored without a cookie.
func FuzzResponder(f *testing.F) {
	f.Add(request(KindQuery, 0, Query{1}, 300), false)
	f.Add(request(KindRegister, 0, Register{}, 64), true)
	f.Add(request(KindWatch, 0, Watch{Sink: rdma.Remote{STag: 1}}, 64), true)
	f.Fuzz(func(t *testing.T, b []byte, cookie bool) {
		r, streams := responder()
		now := time.Unix(2000, 0)
		if cookie && len(b) >= 32 {
			c := request(0, r.baker.cookie(from(1), now), Query{}, 0)
			copy(b[24:32], c[24:32])
		}
		out, _ := r.answer(b, from(1), now)
		require.LessOrEqual(t, len(out), len(b))
		if out != nil {
			_, _, err := ParseReply(out)
			require.NoError(t, err)
		}
		if !cookie {
			require.Empty(t, r.clients.m)
			require.Zero(t, streams.asked)
		}
	})
}
