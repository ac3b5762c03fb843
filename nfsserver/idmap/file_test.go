package idmap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestParseFile checks the meaning of idmapd.conf files.
func TestParseFile(t *testing.T) {
	none := map[string]string{}
	for _, tt := range []struct {
		name, text string
		want       Rules
	}{
		{"nothing", "", Rules{Static: none}},
		{"Debian's", "[General]\n\nVerbosity = 0\n# set your own domain here\n# Domain = localdomain\n\n[Mapping]\n\nNobody-User = nobody\nNobody-Group = nogroup\n", Rules{Static: none}},
		{"all", "[General]\nDomain = example.org\nLocal-Realms = EXAMPLE.ORG, MAIL.EXAMPLE.ORG\n[Translation]\nMethod = nsswitch\nGSS-Methods = static,nsswitch\n[Static]\nhost/a.example@EXAMPLE.ORG = backup\nroot/admin@EXAMPLE.ORG = root\n", Rules{
			Domain: "example.org", Realms: []string{"EXAMPLE.ORG", "MAIL.EXAMPLE.ORG"}, Methods: []Method{Static, NSSwitch},
			Static: map[string]string{"host/a.example@EXAMPLE.ORG": "backup", "root/admin@EXAMPLE.ORG": "root"},
		}},
		{"letters' case and blanks", "  [ GENERAL ]\r\n\tdomain=example.org\r\n[translation]\ngss-methods = Static , NSSWITCH", Rules{Domain: "example.org", Methods: []Method{Static, NSSwitch}, Static: none}},
		{"quotes and comments", "[General]\nDomain = \"example.org\" ; ours\nLocal-Realms = A#B # and no more\n; Domain = x\n", Rules{Domain: "example.org", Realms: []string{"A#B"}, Static: none}},
		{"continued", "[General]\nLocal-Realms = A, \\\n  B\n", Rules{Realms: []string{"A", "B"}, Static: none}},
		{"Method counts for principals", "[Translation]\nMethod = static", Rules{Methods: []Method{Static}, Static: none}},
		{"other methods of Method", "[Translation]\nMethod = sss,nsswitch", Rules{Methods: []Method{NSSwitch}, Static: none}},
		{"GSS-Methods first", "[Translation]\nGSS-Methods = static\nMethod = nsswitch", Rules{Methods: []Method{Static}, Static: none}},
		{"a key in another section", "[Mapping]\nDomain = x y\n[General]\nGSS-Methods = foo\n[UMICH_SCHEMA]\nLDAP_base = dc=x", Rules{Static: none}},
		{"escapes", "[Static]\na\\/b@R = alice\n\\@c@R = alice", Rules{Static: map[string]string{`a\/b@R`: "alice", `\@c@R`: "alice"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseFile("idmapd.conf", []byte(tt.text))
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
	assert.Equal(t, []string{"EXAMPLE.ORG"}, Rules{Domain: "example.org"}.Defaults().Realms)
	assert.Equal(t, []string{"R"}, Rules{Domain: "example.org", Realms: []string{"R"}}.Defaults().Realms)
	assert.Empty(t, Rules{}.Defaults().Realms, "without a domain no realm is local")
}

// TestParseFileErrors checks that every error is reported, with its line and a
// remedy.
func TestParseFileErrors(t *testing.T) {
	for text, want := range map[string][]string{
		"[General":                            {`1: "[General" has no ]; write a section such as [General]`},
		"\nDomain":                            {`2: "Domain" is neither a section nor KEY = VALUE; correct it`},
		"[General]\nDomain = a b":             {`2: "a b" is not a DNS domain name`},
		"[General]\nDomain =":                 {`2: "" is not a DNS domain name`},
		"[General]\nDomain = a\ndomain = b":   {`3: domain is there twice; remove one`},
		"[General]\nLocal-Realms = A,,B":      {`2: "" is not a realm, such as EXAMPLE.ORG`},
		"[General]\nLocal-Realms = a@B":       {`2: "a@B" is not a realm`},
		"[Translation]\nGSS-Methods = sss":    {`2: method "sss" is neither nsswitch nor static; remove it`},
		"[Translation]\nGSS-Methods =":        {`2: method "" is neither`},
		"include = /etc/x\n[Static]\n= root":  {`1: include is not supported; write the lines of "/etc/x" here`, `3: "= root" is neither`},
		"[Static]\nalice = alice":             {`2: "alice" is not a principal, such as alice@EXAMPLE.ORG`},
		"[Static]\n@R = alice\na@ = b":        {`2: "@R" is not a principal`, `3: "a@" is not a principal`},
		"[Static]\na@R@S = x\na b@R = x":      {`2: "a@R@S" is not`, `3: "a b@R" is not`},
		"[Static]\na@R = 0\nb@R = \nc@R = -x": {`2: "0" is not the name of a user of this host; write its name`, `3: "" is not the name`, `4: "-x" is not the name`},
		"[Static]\na@R = b\n\\a@R = c":        {`3: \a@R is there twice; remove one`},
	} {
		_, err := ParseFile("file", []byte(text))
		if !assert.Error(t, err, text) {
			continue
		}
		got := strings.Split(err.Error(), "\n")
		if assert.Len(t, got, len(want), "%q: %v", text, err) {
			for i, w := range want {
				assert.True(t, strings.HasPrefix(got[i], "file:"+w), "%q:\ngot  %s\nwant %s", text, got[i], w)
			}
		}
	}
	_, err := ParseFile("file", make([]byte, maxText+1))
	assert.ErrorContains(t, err, "more than the 1048576")
	_, err = ParseFile("file", []byte(strings.Repeat("x\n", 3*maxErrors)))
	assert.ErrorContains(t, err, fmt.Sprint("file: ", 2*maxErrors, " errors more"))
}

// FuzzParseFile checks that no file makes a rule that a file may not have.
func FuzzParseFile(f *testing.F) {
	f.Add([]byte("[General]\nDomain = example.org\nLocal-Realms = A, B\n[Translation]\nGSS-Methods = static,nsswitch\n[Static]\na/b@R = alice"))
	f.Add([]byte("[Static]\n\\a@R = 'b' # c\\\n"))
	f.Add([]byte("[x\n=\n;\ninclude = /x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseFile("x", text)
		if err != nil {
			return
		}
		assert.True(t, r.Domain == "" || CheckDomain(r.Domain) == nil)
		for _, realm := range r.Realms {
			assert.NotEmpty(t, realm)
			assert.NotContains(t, realm, "@")
		}
		for principal, user := range r.Static {
			p, err := parsePrincipal(principal)
			assert.NoError(t, err)
			again, err := principalText(p)
			assert.NoError(t, err)
			assert.Equal(t, principal, again)
			assert.True(t, isPlainName([]byte(user)), "%q", user)
		}
	})
}
