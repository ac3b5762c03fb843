package discover

import (
	"net/netip"
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

// No answer is longer than its request, so that nobody multiplies what he sends in
// another's name.
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

// How much is answered is bounded, for each address and for all, and who has shown a
// cookie is not kept out by those who have none.
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
	assert.False(t, ask(2, r.baker.cookie(from(1), now)), "that one is another's")
	assert.LessOrEqual(t, len(r.unproven.of), answersPerSecond, "what is remembered is bounded too")
	now = now.Add(time.Second)
	assert.True(t, ask(1, 0))
	assert.Equal(t, r.totals.Dropped, uint64(1+10*answersPerSecond-answered+1))
}

// What makes the server remember or send something needs a cookie of that address
// and queue pair, given lately.
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

// The clients are bounded, in all and for each host; a host loses its oldest.
func TestClientsBounded(t *testing.T) {
	var table clientTable
	now := time.Unix(2000, 0)
	for i := range 3 * maxPerAddress {
		require.True(t, table.add(client{Addr: from(1).Addr, QP: uint32(i), Until: now.Add(time.Duration(i))}))
	}
	assert.Len(t, table.m, maxPerAddress)
	for i := range maxPerAddress {
		assert.NotNil(t, table.m[place{from(1).Addr, uint32(2*maxPerAddress + i)}], "the last ones")
	}
	for i := range 2 * maxClients {
		table.add(client{Addr: from(2 + i).Addr, Until: now.Add(time.Hour)})
	}
	assert.Equal(t, maxClients, len(table.m))
	assert.True(t, table.add(client{Addr: from(2).Addr, Until: now.Add(time.Hour)}), "whoever is there is renewed")

	var back clientTable
	require.NoError(t, back.load(table.save(), now.Add(-time.Second)))
	assert.Equal(t, maxClients, len(back.m))
	back.expire(now.Add(time.Minute))
	assert.Equal(t, maxClients-maxPerAddress, len(back.m))
}

// FuzzResponder: whatever comes in, an answer is a message that is no longer, and
// there is nothing to remember without a cookie.
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
