package discover

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// messages are golden: a change of one makes another version of the protocol.
var (
	anAnswer = Answer{
		Cookie: 0x0102030405060708, RDMA: netip.MustParseAddrPort("192.0.2.1:20049"), TCP: netip.MustParseAddrPort("[::]:2049"),
		Host: "host", Version: "v1", Total: 3, First: 1, Exports: []string{"/a", "/bcd"},
	}
	aCount = &Counters{
		Boot: 7, Sequence: 8, Draining: true, Uptime: time.Second,
		Transports: []Transport{{Name: "rdma", Connections: 1, UnderWay: 2, Accepted: 3, Refused: 4, In: 5, Out: 6}},
		Procs:      []Proc{{Program: "nfs3", Name: "READ", Calls: 9, Errors: 10, In: 11, Out: 12, Took: 13 * time.Microsecond}},
	}
)

// parsed parses the rest of a message after its start, for comparison.
func parsed[T any](t *testing.T, parse func(*xdr.Reader) (T, error), b []byte) T {
	t.Helper()
	r := xdr.NewReader(b)
	m, err := parse(&r)
	require.NoError(t, err)
	require.Zero(t, r.Left())
	for n := range b { // cut at every byte
		r := xdr.NewReader(b[:n])
		_, err := parse(&r)
		assert.ErrorIs(t, err, ErrForm, n)
	}
	return m
}

func TestGolden(t *testing.T) {
	for name, m := range map[string]interface{ AppendTo([]byte) []byte }{
		"query":      parts{Request{KindQuery, 0x1122334455667788, 0x7fffffff, 0}, Query{5}},
		"answer":     parts{Reply{KindAnswer, 0x1122334455667788, 7, 1000}, answered{anAnswer}},
		"register":   parts{Request{KindRegister, 1, 2, 3}, Register{4, true}},
		"registered": parts{Reply{KindRegistered, 1, 2, 3}, Registered{86400}},
		"notice":     parts{Reply{KindNotice, 0, 2, 3}, Notice{4}},
		"refused":    parts{Reply{KindRefused, 1, 2, 3}, Refused{RefusedCookie, 4}},
		"watch":      parts{Request{KindWatch, 1, 2, 3}, Watch{4, 4096, rdma.Remote{STag: 5, TO: 6}, CountersRoom, time.Second}},
		"watching":   parts{Reply{KindWatching, 1, 2, 3}, Watching{4, 5, 1024, time.Second, 15 * time.Second}},
		"counters":   aCount,
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, wiretest.Hex(t, "testdata/"+name+".hex"), m.AppendTo(nil))
		})
	}
}

type parts struct {
	a, b interface{ AppendTo([]byte) []byte }
}

func (p parts) AppendTo(b []byte) []byte { return p.b.AppendTo(p.a.AppendTo(b)) }

type answered struct{ a Answer }

func (a answered) AppendTo(b []byte) []byte {
	b, _ = a.a.AppendTo(b, maxMessage)
	return b
}

// TestBack checks that encoded messages are decoded to the same values.
func TestBack(t *testing.T) {
	back := anAnswer
	assert.Equal(t, back, parsed(t, parseAnswer, answered{anAnswer}.AppendTo(nil)))
	assert.Equal(t, Query{5}, parsed(t, parseQuery, Query{5}.AppendTo(nil)))
	assert.Equal(t, Register{4, true}, parsed(t, parseRegister, Register{4, true}.AppendTo(nil)))
	assert.Equal(t, Registered{9}, parsed(t, parseRegistered, Registered{9}.AppendTo(nil)))
	assert.Equal(t, Notice{9}, parsed(t, parseNotice, Notice{9}.AppendTo(nil)))
	assert.Equal(t, Refused{RefusedRoom, 9}, parsed(t, parseRefused, Refused{RefusedRoom, 9}.AppendTo(nil)))
	w := Watch{4, 4096, rdma.Remote{STag: 5, TO: 6}, 100, time.Second}
	assert.Equal(t, w, parsed(t, parseWatch, w.AppendTo(nil)))
	g := Watching{4, 5, 1024, time.Second, time.Minute}
	assert.Equal(t, g, parsed(t, parseWatching, g.AppendTo(nil)))

	b := aCount.AppendTo(nil)
	c, err := ParseCounters(b)
	require.NoError(t, err)
	assert.Equal(t, aCount, c)
	for n := range b {
		_, err := ParseCounters(b[:n])
		assert.ErrorIs(t, err, ErrForm, n)
	}
	b[7]++
	_, err = ParseCounters(b)
	assert.ErrorIs(t, err, ErrVersion)
}

// TestStart checks that the start of a message is validated.
func TestStart(t *testing.T) {
	q := Request{KindQuery, 1, 2, 3}
	b := q.AppendTo(nil)
	got, _, err := ParseRequest(b)
	require.NoError(t, err)
	assert.Equal(t, q, got)
	for n := range b {
		_, _, err := ParseRequest(b[:n])
		assert.ErrorIs(t, err, ErrForm, n)
	}
	b[7]++
	_, _, err = ParseRequest(b)
	assert.ErrorIs(t, err, ErrVersion)
	_, _, err = ParseReply(b)
	assert.ErrorIs(t, err, ErrVersion)
	b[0]++
	_, _, err = ParseReply(b)
	assert.ErrorIs(t, err, ErrForm)
}

// TestLongest checks that the longest counters fit into monitors' memory, and
// names of any length into answers.
func TestLongest(t *testing.T) {
	long := strings.Repeat("x", 1000)
	c := Counters{Transports: make([]Transport, 100), Procs: make([]Proc, 1000)}
	for i := range c.Transports {
		c.Transports[i].Name = long
	}
	for i := range c.Procs {
		c.Procs[i].Program, c.Procs[i].Name = long, long
	}
	b := c.AppendTo(nil)
	assert.LessOrEqual(t, len(b), CountersRoom)
	back, err := ParseCounters(b)
	require.NoError(t, err)
	assert.Len(t, back.Procs, maxProcs)
	assert.Len(t, back.Transports, maxTransports)

	a := Answer{Host: long, Version: long, Exports: []string{long[:900], "/a", long}}
	b, ok := a.AppendTo(nil, 500)
	assert.True(t, ok)
	r := xdr.NewReader(b)
	got, err := parseAnswer(&r)
	require.NoError(t, err)
	assert.Equal(t, []string{"", "/a"}, got.Exports, "an entry without room, followed by entries that fit")
	assert.Equal(t, long[:maxName], got.Host)
	_, ok = a.AppendTo(nil, 100)
	assert.False(t, ok)
}

// FuzzParse checks that a parsed message survives encoding and decoding, and
// that no value is larger than the message.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"query", "answer", "register", "registered", "notice", "refused", "watch", "watching", "counters"} {
		f.Add(wiretest.Hex(f, "testdata/"+name+".hex"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseCounters(b); err == nil {
			again, err := ParseCounters(c.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
		if q, body, err := ParseRequest(b); err == nil {
			again, _, err := ParseRequest(q.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, q, again)
			for _, parse := range []func(r xdr.Reader){
				func(r xdr.Reader) { _, _ = parseQuery(&r) },
				func(r xdr.Reader) { _, _ = parseRegister(&r) },
				func(r xdr.Reader) { _, _ = parseWatch(&r) },
			} {
				parse(body)
			}
		}
		if p, body, err := ParseReply(b); err == nil {
			again, _, err := ParseReply(p.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, p, again)
			r := body
			if a, err := parseAnswer(&r); err == nil {
				require.LessOrEqual(t, 4*len(a.Exports), len(b))
				out, ok := a.AppendTo(nil, 1<<20)
				require.True(t, ok)
				r := xdr.NewReader(out)
				again, err := parseAnswer(&r)
				require.NoError(t, err)
				require.Equal(t, a, again)
			}
			for _, parse := range []func(r xdr.Reader){
				func(r xdr.Reader) { _, _ = parseRegistered(&r) },
				func(r xdr.Reader) { _, _ = parseNotice(&r) },
				func(r xdr.Reader) { _, _ = parseRefused(&r) },
				func(r xdr.Reader) { _, _ = parseWatching(&r) },
			} {
				parse(body)
			}
		}
	})
}
