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
	"github.com/nfsrdma/nfsrdma/rdma/roce"
)

// fakeStreams counts requests for streams, and starts none.
type fakeStreams struct{ calls int }

func (n *fakeStreams) setStream(roce.Source, watchBody, time.Time) (watchingBody, Reason) {
	n.calls++
	return watchingBody{}, refusedFull
}

func newTestResponder() (*Responder, *fakeStreams) {
	s := new(fakeStreams)
	return newResponder(7, time.Unix(1000, 0), describeExports("/a", "/b", "/c/d/e/f/g/h"), s), s
}

func encodeRequest(k Kind, cookie uint64, m requestBody, length int) []byte {
	return padRequest(m.AppendTo(Request{Kind: k, ID: 1, QKey: 2, Cookie: cookie}.AppendTo(nil)), length)
}

func sourceAddr(i int) roce.Source {
	return roce.Source{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), QP: 3}
}

// TestNoAmplification checks that no answer is longer than its request, so that
// a forged source gives no amplification.
func TestNoAmplification(t *testing.T) {
	r, _ := newTestResponder()
	now := time.Unix(2000, 0)
	for i, m := range []struct {
		k Kind
		m requestBody
	}{{kindQuery, queryBody{}}, {kindQuery, queryBody{1 << 31}}, {kindRegister, registerBody{}}, {kindWatch, watchBody{}}} {
		for length := range maxMessage + 100 {
			src := sourceAddr(i<<16 + length)
			for _, cookie := range []uint64{0, r.baker.newCookie(src, now)} {
				b := encodeRequest(m.k, cookie, m.m, length)
				out, _ := r.answerMessage(b, src, now)
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
	r, _ := newTestResponder()
	now := time.Unix(2000, 0)
	ask := func(i int, cookie uint64) bool {
		out, _ := r.answerMessage(encodeRequest(kindQuery, cookie, queryBody{}, maxMessage), sourceAddr(i), now)
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
	assert.True(t, ask(1, r.baker.newCookie(sourceAddr(1), now)), "it has a cookie")
	assert.False(t, ask(2, r.baker.newCookie(sourceAddr(1), now)), "another server's announcement")
	assert.LessOrEqual(t, len(r.unproven.byAddress), answersPerSecond, "the remembered set is bounded too")
	now = now.Add(time.Second)
	assert.True(t, ask(1, 0))
	assert.Equal(t, r.totals.Dropped, uint64(1+10*answersPerSecond-answered+1))
}

// TestCookie checks that a request that makes the server store or send something
// needs a recent cookie for its address and queue pair.
func TestCookie(t *testing.T) {
	r, streams := newTestResponder()
	now := time.Unix(2000, 0)
	for k, m := range map[Kind]requestBody{kindRegister: registerBody{}, kindWatch: watchBody{}} {
		ask := func(src roce.Source, cookie uint64, now time.Time) Kind {
			out, _ := r.answerMessage(encodeRequest(k, cookie, m, minRequest), src, now)
			p, _, err := parseReply(out)
			require.NoError(t, err)
			return p.Kind
		}
		other := sourceAddr(1)
		other.QP++
		good := r.baker.newCookie(sourceAddr(1), now)
		for _, bad := range []struct {
			src    roce.Source
			cookie uint64
			at     time.Time
		}{{sourceAddr(1), 0, now}, {sourceAddr(1), good + 2, now}, {sourceAddr(2), good, now}, {other, good, now}, {sourceAddr(1), good, now.Add(2 * cookieTime)}} {
			assert.Equal(t, kindRefused, ask(bad.src, bad.cookie, bad.at))
		}
		assert.Empty(t, r.clients.clients)
		assert.Zero(t, streams.calls)
		granted := ask(sourceAddr(1), good, now.Add(cookieTime))
		if k == kindRegister {
			assert.Equal(t, kindRegistered, granted)
			assert.Len(t, r.clients.clients, 1)
			delete(r.clients.clients, clientID{sourceAddr(1).Addr, 3})
		} else {
			assert.Equal(t, 1, streams.calls)
			streams.calls = 0
		}
	}
}

// TestClientsBounded checks that the clients are bounded, in total and per
// host; a host loses its oldest.
func TestClientsBounded(t *testing.T) {
	var table clientTable
	now := time.Unix(2000, 0)
	for i := range 3 * maxPerAddress {
		news, ok := table.addOrRenew(registeredClient{Addr: sourceAddr(1).Addr, QP: uint32(i), Until: now.Add(time.Duration(i))})
		require.True(t, news && ok)
	}
	assert.Len(t, table.clients, maxPerAddress)
	for i := range maxPerAddress {
		assert.NotNil(t, table.clients[clientID{sourceAddr(1).Addr, uint32(2*maxPerAddress + i)}], "the last ones")
	}
	for i := range 2 * maxClients {
		table.addOrRenew(registeredClient{Addr: sourceAddr(2 + i).Addr, Until: now.Add(time.Hour)})
	}
	assert.Equal(t, maxClients, len(table.clients))
	news, ok := table.addOrRenew(registeredClient{Addr: sourceAddr(2).Addr, Until: now.Add(time.Hour)})
	assert.True(t, ok, "known clients are renewed")
	assert.False(t, news)

	var back clientTable
	require.NoError(t, back.decode(table.encode(), now.Add(-time.Second)))
	assert.Equal(t, maxClients, len(back.clients))
	back.removeExpired(now.Add(time.Minute))
	assert.Equal(t, maxClients-maxPerAddress, len(back.clients))
}

// sourceInNetwork returns addresses in one IPv6 network, which is one client group.
func sourceInNetwork(i int) roce.Source {
	return roce.Source{Addr: netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 14: byte(i >> 8), 15: byte(i)}), QP: 3}
}

// TestParties checks that a client group with any number of addresses gets half of
// a total.
func TestParties(t *testing.T) {
	var table clientTable
	now := time.Unix(2000, 0)
	for i := range 2 * maxClients {
		_, ok := table.addOrRenew(registeredClient{Addr: sourceInNetwork(i).Addr, Until: now.Add(time.Duration(i))})
		require.True(t, ok)
	}
	assert.Len(t, table.clients, maxClients/2)
	_, ok := table.addOrRenew(registeredClient{Addr: sourceAddr(1).Addr, Until: now.Add(time.Hour)})
	assert.True(t, ok)
	assert.NotNil(t, table.clients[clientID{sourceInNetwork(2*maxClients - 1).Addr, 0}], "the last ones stay")

	r, _ := newTestResponder()
	answered := func(src roce.Source) bool {
		out, _ := r.answerMessage(encodeRequest(kindQuery, 0, queryBody{}, maxMessage), src, now)
		return out != nil
	}
	for i := range 10 * answersPerSecond {
		assert.Equal(t, i < answersPerSecond/2, answered(sourceInNetwork(i)))
	}
	assert.True(t, answered(sourceAddr(1)))
	assert.LessOrEqual(t, len(r.unproven.byGroup), answersPerSecond)
	now = now.Add(time.Second)
	assert.True(t, answered(sourceInNetwork(1)))
}

// TestSavedNowAndThen checks that clients that register repeatedly are saved
// periodically, independently of their rate.
func TestSavedNowAndThen(t *testing.T) {
	r, _ := newTestResponder()
	now := time.Unix(2000, 0)
	register := func(m registerBody) {
		out, _ := r.answerMessage(encodeRequest(kindRegister, r.baker.newCookie(sourceAddr(1), now), m, minRequest), sourceAddr(1), now)
		p, _, err := parseReply(out)
		require.NoError(t, err)
		require.Equal(t, kindRegistered, p.Kind)
	}
	register(registerBody{Token: 5})
	assert.NotNil(t, r.encodeUnsaved(now), "a new client at once")
	assert.Nil(t, r.encodeUnsaved(now.Add(time.Hour)), "no message since")
	saves := 0
	for range 600 { // in tenths of a second
		now = now.Add(noticeInterval)
		register(registerBody{Token: 5})
		if r.encodeUnsaved(now) != nil {
			saves++
		}
	}
	assert.Equal(t, 1, saves)
	now = now.Add(newsTime)
	register(registerBody{Token: 6})
	assert.NotNil(t, r.encodeUnsaved(now), "a second mount of that host")
	register(registerBody{Leave: true})
	assert.Nil(t, r.encodeUnsaved(now), "too soon")
	now = now.Add(newsTime)
	assert.NotNil(t, r.encodeUnsaved(now))
	assert.Nil(t, r.encodeUnsaved(now.Add(time.Hour)))

	saves = 0
	for i := range 600 { // a mount that registers and unregisters repeatedly
		now = now.Add(noticeInterval)
		register(registerBody{Token: 7, Leave: i%2 > 0})
		if r.encodeUnsaved(now) != nil {
			saves++
		}
	}
	assert.LessOrEqual(t, saves, 60)
	assert.Greater(t, saves, 30)
}

// TestSavedAgain checks that a failed save is repeated, at the rate of other
// saves, without another change.
func TestSavedAgain(t *testing.T) {
	r, _ := newTestResponder()
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
		for end := now.Add(d); now.Before(end); s.saveClients(now) {
			now = now.Add(noticeInterval)
		}
	}
	out, _ := r.answerMessage(encodeRequest(kindRegister, r.baker.newCookie(sourceAddr(1), now), registerBody{Token: 5}, minRequest), sourceAddr(1), now)
	require.NotNil(t, out)
	later(10 * newsTime)
	assert.InDelta(t, 10, tries, 1)
	works, tries = true, 0
	later(10 * newsTime)
	assert.Equal(t, 1, tries)
	assert.Contains(t, log.String(), "disk full")
}

// TestFinderEnds checks that a search terminates even if a server numbers its answers
// correctly and always claims to have more exports.
func TestFinderEnds(t *testing.T) {
	f := search{Port: &Port{cookie: make(map[netip.Addr]uint64)}, to: server, id: 1, found: make(map[netip.Addr]*Found)}
	exports := make([]string, 60)
	for first := 0; first < 2*maxExports; first += len(exports) {
		a := answerBody{Total: 1 << 31, First: uint32(first), Exports: exports}
		b, ok := a.AppendTo(replyHeader{Kind: kindAnswer, ID: 1}.AppendTo(nil), maxMessage)
		require.True(t, ok)
		r, body, err := parseReply(b)
		require.NoError(t, err)
		s := f.recordAnswer(&serverMessage{r, server, body})
		assert.Equal(t, first < maxExports, s != nil)
	}
	assert.Len(t, f.found[server].Exports, maxExports)
	assert.True(t, f.found[server].isComplete())
}

// FuzzResponder checks that the answer to any input is a valid message that is
// not longer, and that nothing is stored without a cookie.
func FuzzResponder(f *testing.F) {
	f.Add(encodeRequest(kindQuery, 0, queryBody{1}, 300), false)
	f.Add(encodeRequest(kindRegister, 0, registerBody{}, 64), true)
	f.Add(encodeRequest(kindWatch, 0, watchBody{Sink: rdma.Remote{STag: 1}}, 64), true)
	f.Fuzz(func(t *testing.T, b []byte, cookie bool) {
		r, streams := newTestResponder()
		now := time.Unix(2000, 0)
		if cookie && len(b) >= 32 {
			c := encodeRequest(0, r.baker.newCookie(sourceAddr(1), now), queryBody{}, 0)
			copy(b[24:32], c[24:32])
		}
		out, _ := r.answerMessage(b, sourceAddr(1), now)
		require.LessOrEqual(t, len(out), len(b))
		if out != nil {
			_, _, err := parseReply(out)
			require.NoError(t, err)
		}
		if !cookie {
			require.Empty(t, r.clients.clients)
			require.Zero(t, streams.calls)
		}
	})
}
