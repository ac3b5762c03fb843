package exports

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parseClients(t testing.TB, line string) []Client {
	t.Helper()
	f, err := Parse("x", []byte("/x "+line))
	require.NoError(t, err)
	return f.Exports[0].Clients
}

// TestFind checks which client matches a host, in exports(5) order: hosts, networks, wildcards,
// everyone; within the same kind, the first.
func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(&fakeNameService{
			forward: map[string][]string{"a.example": {"192.0.2.1"}, "b.example": {"192.0.2.2", "2001:db8::2"}, "short": {"192.0.2.1"}},
			reverse: map[string][]string{"192.0.2.1": {"a.example."}, "2001:db8::2": {"b.example."}, "192.0.2.3": {"a.example."}},
		}, nil)
		defer r.Close()
		for _, tt := range []struct {
			line, addr string
			want       int
			named      bool
		}{
			{"*", "192.0.2.1", 0, false},
			{"* 192.0.2.0/24 192.0.2.1", "192.0.2.1", 2, false},
			{"* 192.0.2.0/24 192.0.2.1", "192.0.2.9", 1, false},
			{"* 192.0.2.0/24 192.0.2.1", "192.0.3.1", 0, false},
			{"192.0.2.0/24 192.0.2.1", "192.0.3.1", -1, false},
			{"192.0.0.0/16 192.0.2.0/24", "192.0.2.1", 0, false},
			{"* *.example 192.0.2.0/24 a.example", "192.0.2.1", 3, true},
			{"* *.example 192.0.2.0/24", "192.0.2.1", 2, false},
			{"* *.example a.example", "2001:db8::2", 1, true},
			{"* *.example", "192.0.2.3", 0, true}, // its name does not lead back
			{"*.example", "192.0.2.7", -1, true},
			{"b.example a.example", "192.0.2.1", 1, true},
			{"192.0.2.1 a.example", "192.0.2.1", 0, false},
			{"short a.example", "192.0.2.1", 0, true},
			{"?.ex[a-b]mple", "192.0.2.1", 0, true},
			{"10.0.0.0/8", "::ffff:10.1.1.1", 0, false},
			{"fe80::/10", "fe80::1%eth0", 0, false},
			{"0.0.0.0/0", "2001:db8::1", -1, false},
		} {
			i, named, err := Find(t.Context(), parseClients(t, tt.line), netip.MustParseAddr(tt.addr), r)
			require.NoError(t, err)
			assert.Equal(t, tt.want, i, "%s: %s", tt.line, tt.addr)
			assert.Equal(t, tt.named, named, "%s: %s", tt.line, tt.addr)
		}
	})
}

// TestFindUnknown checks that no later client is used while a decisive name is
// unknown, because the later client may be permitted more.
func TestFindUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeNameService()
		z.down.Store(true)
		r := NewResolver(z, nil)
		defer r.Close()
		for line, known := range map[string]bool{
			"a.example(ro) *(rw)":            false,
			"*.example(ro) *(rw)":            false,
			"a.example 192.0.2.1":            false,
			"192.0.2.1 a.example":            true,
			"192.0.2.0/24(rw) *.example(ro)": true,
		} {
			_, _, err := Find(t.Context(), parseClients(t, line), netip.MustParseAddr("192.0.2.1"), r)
			assert.Equal(t, known, err == nil, line)
			if err != nil {
				assert.ErrorIs(t, err, errDown)
			}
		}
	})
}

func TestFindWithoutNames(t *testing.T) {
	i, named, err := Find(t.Context(), parseClients(t, "a.example *.example *"), netip.MustParseAddr("192.0.2.1"), nil)
	require.NoError(t, err)
	assert.Equal(t, 2, i)
	assert.False(t, named)
	i, _, err = Find(t.Context(), parseClients(t, "0.0.0.0/0 ::/0"), netip.Addr{}, nil)
	require.NoError(t, err)
	assert.Equal(t, -1, i, "a caller within the process is in no network")
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"*.example", "a.example", true},
		{"*.example", "a.b.example", true},
		{"*.example", "example", false},
		{"*.example", ".example", true},
		{"a*c", "abcbc", true},
		{"a*c", "abcb", false},
		{"*a*b*c*", "xaxbxcx", true},
		{"*a*b*c*", "xaxcxbx", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a[b-d]", "ac", true},
		{"a[b-d]", "ae", false},
		{"a[^b-d]", "ae", true},
		{"a[!b-d]", "ab", false},
		{"a[xb-]", "a-", true},
		{"a[xb]*", "abcd", true},
		{"*[0-9]", "host7", true},
		{"*[0-9]", "host7x", false},
		{"*", "", true},
		{"a", "", false},
		{"**", "x", true},
	} {
		assert.Equal(t, tt.want, matchesPattern(tt.pattern, tt.name), "%s %s", tt.pattern, tt.name)
	}
}

// TestMatchesIsQuick checks that matching takes at most the pattern's length
// times the name's.
func TestMatchesIsQuick(t *testing.T) {
	var pattern, name string
	for range 60 {
		pattern += "*a"
		name += "aaaa"
	}
	assert.False(t, matchesPattern(pattern+"b", name))
}

// TestLocations checks the locations in a list: only in the list are IPv6 addresses in
// brackets.
func TestLocations(t *testing.T) {
	l, err := ParseLocations("/x@a+[2001:db8::1]:/@192.0.2.1")
	require.NoError(t, err)
	assert.Equal(t, []Location{{"/x", []string{"a", "2001:db8::1"}}, {"/", []string{"192.0.2.1"}}}, l.List())
	assert.Empty(t, Locations{}.List())
}
