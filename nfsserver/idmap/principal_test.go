package idmap

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// newPrincipal returns the principal with a realm and components.
func newPrincipal(realm string, name ...string) gss.Principal {
	return gss.Principal{Name: name, Realm: realm}
}

// TestPrincipal checks which principals have a user, and that nothing strange
// reaches the database.
func TestPrincipal(t *testing.T) {
	alice := Account{UID: 1000, GID: 100, Groups: []uint32{100, 27}}
	backup := Account{UID: 34, GID: 34}
	static := map[string]string{
		"host/a.example@R": "backup", "carol@OTHER": "alice", "admin@R": "root", "ghost@R": "nobody-here", "alice@R": "backup", `a\/b@R`: "alice",
	}
	both := []Method{Static, NSSwitch}
	for _, tt := range []struct {
		name    string
		methods []Method
		p       gss.Principal
		want    Account
		ok      bool
		asked   []any
	}{
		{"local", nil, newPrincipal("R", "alice"), alice, true, []any{"user alice"}},
		{"another local realm", nil, newPrincipal("R2", "alice"), alice, true, []any{"user alice"}},
		{"unknown", nil, newPrincipal("R", "bob"), Account{}, false, []any{"user bob"}},
		{"foreign", nil, newPrincipal("OTHER", "alice"), Account{}, false, nil},
		{"a realm in small letters", nil, newPrincipal("r", "alice"), Account{}, false, nil},
		{"no realm", nil, newPrincipal("", "alice"), Account{}, false, nil},
		{"in another role", nil, newPrincipal("R", "alice", "admin"), Account{}, false, nil},
		{"a host", nil, newPrincipal("R", "host", "a.example"), Account{}, false, nil},
		{"nfs", nil, newPrincipal("R", "nfs", "a.example"), Account{}, false, nil},
		{"root of a host", nil, newPrincipal("R", "root", "a.example"), Account{}, false, nil},
		{"a machine of Active Directory", nil, newPrincipal("R", "BACKUP$"), Account{}, false, nil},
		{"root", nil, newPrincipal("R", "root"), Account{}, false, []any{"user root"}},
		{"another name of the superuser", nil, newPrincipal("R", "toor"), Account{}, false, []any{"user toor"}},
		{"no component", nil, newPrincipal("R"), Account{}, false, nil},
		{"an empty component", nil, newPrincipal("R", ""), Account{}, false, nil},
		{"0", nil, newPrincipal("R", "0"), Account{}, false, nil},
		{"a number", nil, newPrincipal("R", "1000"), Account{}, false, nil},
		{"an option", nil, newPrincipal("R", "-h"), Account{}, false, nil},
		{"two hyphens", nil, newPrincipal("R", "--service=files"), Account{}, false, nil},
		{"a plus", nil, newPrincipal("R", "+alice"), Account{}, false, nil},
		{"a colon", nil, newPrincipal("R", "alice:x:0"), Account{}, false, nil},
		{"a slash in a component", nil, newPrincipal("R", "alice/admin"), Account{}, false, nil},
		{"an at", nil, newPrincipal("R", "alice@R"), Account{}, false, nil},
		{"a domain of Windows", nil, newPrincipal("R", `OTHER\alice`), Account{}, false, nil},
		{"a zero byte", nil, newPrincipal("R", "alice\x00"), Account{}, false, nil},
		{"a line end", nil, newPrincipal("R", "alice\nroot"), Account{}, false, nil},
		{"DEL", nil, newPrincipal("R", "alice\x7f"), Account{}, false, nil},
		{"a blank", nil, newPrincipal("R", "alice "), Account{}, false, nil},
		{"long", nil, newPrincipal("R", strings.Repeat("a", 256)), Account{}, false, nil},
		{"very long", both, newPrincipal("R", strings.Repeat("a", 1<<16)), Account{}, false, nil},
		{"static is not asked", nil, newPrincipal("R", "host", "a.example"), Account{}, false, nil},
		{"static alone", []Method{Static}, newPrincipal("R", "host", "a.example"), backup, true, []any{"user backup"}},
		{"static, another realm", both, newPrincipal("OTHER", "carol"), alice, true, []any{"user alice"}},
		{"static makes root", both, newPrincipal("R", "admin"), Account{}, true, []any{"user root"}},
		{"static, user unknown", both, newPrincipal("R", "ghost"), Account{}, false, []any{"user nobody-here", "user ghost"}},
		{"static comes first", both, newPrincipal("R", "alice"), backup, true, []any{"user backup"}},
		{"nsswitch comes first", []Method{NSSwitch, Static}, newPrincipal("R", "alice"), alice, true, []any{"user alice"}},
		{"root by nsswitch, before static", []Method{NSSwitch, Static}, newPrincipal("R", "root"), Account{}, false, []any{"user root"}},
		{"static, not by two components", []Method{Static}, newPrincipal("R", "a", "b"), Account{}, false, nil},
		{"static, by one with a slash", []Method{Static}, newPrincipal("R", "a/b"), alice, true, []any{"user alice"}},
		{"static, no realm in the name", []Method{Static}, newPrincipal("", "alice@R"), Account{}, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := new(fakeDatabase)
			m := New(Config{Rules: Rules{Realms: []string{"R", "R2"}, Methods: tt.methods, Static: static}, Database: d})
			defer m.Close()
			for range 2 {
				u, ok, err := m.Principal(t.Context(), client, tt.p)
				require.NoError(t, err)
				assert.Equal(t, tt.ok, ok, "R4121-P-1")
				assert.Equal(t, tt.want, u, "R4121-P-1")
			}
			assert.Equal(t, tt.asked, d.asked, "once each")
		})
	}
}

// TestPrincipalCost checks that a principal whose user is known costs no
// allocation.
func TestPrincipalCost(t *testing.T) {
	m := New(Config{Rules: Rules{Realms: []string{"R"}, Methods: []Method{Static, NSSwitch}, Static: map[string]string{"bob@R": "backup"}}, Database: new(fakeDatabase)})
	defer m.Close()
	ctx := context.Background()
	for _, p := range []gss.Principal{newPrincipal("R", "alice"), newPrincipal("R", "bob"), newPrincipal("R", "host", "a.example")} {
		assert.Zero(t, testing.AllocsPerRun(10, func() { _, _, _ = m.Principal(ctx, client, p) }), p)
	}
}

// TestPrincipalsForgotten checks that replies are used for ten minutes, and only until
// SetRules, and that a database error is not a reply.
func TestPrincipalsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(fakeDatabase)
		m := New(Config{Rules: Rules{Realms: []string{"R"}}, Database: d})
		defer m.Close()
		ask := func() bool {
			_, ok, err := m.Principal(t.Context(), client, newPrincipal("R", "alice"))
			require.NoError(t, err)
			synctest.Wait()
			return ok
		}
		assert.True(t, ask())
		time.Sleep(freshUserTime - time.Second)
		assert.True(t, ask())
		assert.Len(t, d.asked, 1)
		time.Sleep(2 * time.Second)
		assert.True(t, ask())
		assert.Len(t, d.asked, 2)
		m.SetRules(Rules{Realms: []string{"R"}})
		assert.True(t, ask())
		assert.Len(t, d.asked, 3)
		m.SetRules(Rules{Realms: []string{"R2"}})
		assert.False(t, ask())
		d.err = errors.New("down")
		m.SetRules(Rules{Realms: []string{"R"}})
		_, ok, err := m.Principal(t.Context(), client, newPrincipal("R", "alice"))
		assert.ErrorIs(t, err, d.err)
		assert.False(t, ok)
	})
}

// FuzzPrincipal checks that hostile names make neither the superuser nor a
// question with anything but a plain name.
func FuzzPrincipal(f *testing.F) {
	for _, s := range []string{"alice", "0", "-h", "root\x00", "a/b", "alice$", "+", "١٢"} {
		f.Add(s, "", "R")
		f.Add("host", s, "R")
	}
	f.Fuzz(func(t *testing.T, first, second, realm string) {
		p := newPrincipal(realm, first)
		if second != "" {
			p.Name = append(p.Name, second)
		}
		d := new(fakeDatabase)
		m := New(Config{Rules: Rules{Realms: []string{"R"}, Methods: []Method{NSSwitch, Static}}, Database: d})
		defer m.Close()
		u, ok, err := m.Principal(t.Context(), client, p)
		require.NoError(t, err)
		assert.False(t, ok && u.UID == 0)
		for _, q := range d.asked {
			name := strings.TrimPrefix(q.(string), "user ")
			assert.Equal(t, first, name)
			assert.Empty(t, second)
			assert.Equal(t, "R", realm)
			assert.NotContains(t, "-+", name[:1])
			assert.False(t, strings.ContainsAny(name, ":/@\x00\n\r\t \x7f"), "%q", name)
			assert.NotEqual(t, "", strings.Trim(name, "0123456789"))
		}
		if text, err := principalText(p); err == nil {
			again, err := parsePrincipal(text)
			if err == nil { // blanks and empty components have no form in a file
				assert.Equal(t, p, again)
			}
		}
	})
}
