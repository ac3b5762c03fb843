package exports

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// explainLines returns a file's meaning, one line for each client.
func explainLines(f *File) (lines []string) {
	for _, e := range f.Exports {
		for _, c := range e.Clients {
			lines = append(lines, fmt.Sprintf("%q %s", e.Path, c))
		}
	}
	return lines
}

// defaults are a client's full options without any in the file.
const defaults = "ro,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=sys"

func optionsWith(changes ...string) string {
	s := defaults
	for i := 0; i < len(changes); i += 2 {
		s = strings.Replace(s, changes[i], changes[i+1], 1)
	}
	return "(" + s + ")"
}

func TestParse(t *testing.T) {
	ro, rw := optionsWith(), optionsWith("ro", "rw")
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"blank lines and comments", "\n  \n# /srv *(rw)\n\t# x\n", nil},
		{"one", "/srv *(rw)\n", []string{`"/srv" *` + rw}},
		{"no end of line", "/srv *(rw)", []string{`"/srv" *` + rw}},
		{"ends of lines of other systems", "/srv *(rw)\r\n/b *\r\n", []string{`"/srv" *` + rw, `"/b" *` + ro}},
		{"defaults of exports(5)", "/srv *", []string{`"/srv" *` + ro}},
		{"no options in parentheses", "/srv *()", []string{`"/srv" *` + ro}},
		{"several", "/srv a(rw)  b\tc.example(rw)", []string{`"/srv" a` + rw, `"/srv" b` + ro, `"/srv" c.example` + rw}},
		{"default options", "/srv -rw,all_squash a b(ro) c(no_all_squash)", []string{
			`"/srv" a` + optionsWith("ro", "rw", "no_all_squash", "all_squash"), `"/srv" b` + optionsWith("no_all_squash", "all_squash"), `"/srv" c` + rw,
		}},
		{"default options end with their line", "/srv -rw a\n/b b", []string{`"/srv" a` + rw, `"/b" b` + ro}},
		{"comment behind", "/srv *(rw) # and *(ro)", []string{`"/srv" *` + rw}},
		{"number sign in a word", "/srv#1 *(rw)", []string{`"/srv#1" *` + rw}},
		{"continued", "/srv \\\n  a(rw) \\\r\n\tb\n/b c", []string{`"/srv" a` + rw, `"/srv" b` + ro, `"/b" c` + ro}},
		{"continued right behind a word", "/srv a(rw)\\\nb", []string{`"/srv" a` + rw, `"/srv" b` + ro}},
		{"a comment is not continued", "/srv a # \\\n/b b", []string{`"/srv" a` + ro, `"/b" b` + ro}},
		{"continued into a comment", "/srv a \\\n# b\n/c c", []string{`"/srv" a` + ro, `"/c" c` + ro}},
		{"quotes", `"/srv/my files" *(rw)`, []string{`"/srv/my files" *` + rw}},
		{"quotes within a word", `/srv/my" files"/x *(rw)`, []string{`"/srv/my files/x" *` + rw}},
		{"quotes over a client", `/srv "a(rw)"`, []string{`"/srv" a` + rw}},
		{"octal", `/srv/my\040files\134\377 *(rw)`, []string{`"/srv/my files\\\xff" *` + rw}},
		{"other backslashes", `/srv\x\09\089\ *(rw)`, []string{`"/srv\\x\\09\\089\\" *` + rw}},
		{"bytes", "/srv/\xff\xfe *(rw)", []string{`"/srv/\xff\xfe" *` + rw}},
		{"slashes", "/srv//a/ *(rw)\n// *(rw)", []string{`"/srv/a" *` + rw, `"/" *` + rw}},
		{"a path again", "/srv a(rw)\n/b b\n/srv/ c", []string{`"/srv" a` + rw, `"/srv" c` + ro, `"/b" b` + ro}},
		{"kinds of hosts", "/s 192.0.2.1 192.0.2.1/24 10.0.0.0/255.0.0.0 0.0.0.0/0 2001:DB8::1 2001:db8::1/32 fc00::/fe00:: ::ffff:10.1.1.1 Host.Example. under_score *.example w[a-c]?", []string{
			`"/s" 192.0.2.1` + ro, `"/s" 192.0.2.0/24` + ro, `"/s" 10.0.0.0/8` + ro, `"/s" 0.0.0.0/0` + ro,
			`"/s" 2001:db8::1` + ro, `"/s" 2001:db8::/32` + ro, `"/s" fc00::/7` + ro, `"/s" 10.1.1.1` + ro,
			`"/s" host.example` + ro, `"/s" under_score` + ro, `"/s" *.example` + ro, `"/s" w[a-c]?` + ro,
		}},
		{"all options", "/s a(rw,async,insecure,no_root_squash,all_squash,subtree_check,crossmnt,nohide,exclusive,no_auth_nlm,anonuid=0,anongid=-2,fsid=7,sec=sys,no_wdelay)", []string{
			`"/s" a(rw,async,insecure,no_root_squash,all_squash,subtree_check,crossmnt,nohide,exclusive,insecure_locks,anonuid=0,anongid=4294967294,fsid=7,sec=sys)`,
		}},
		{"the last of two is used", "/s a(ro,rw,async,sync,insecure,secure,no_root_squash,root_squash,all_squash,no_all_squash,subtree_check,no_subtree_check,crossmnt,nocrossmnt,nohide,hide,insecure_locks,auth_nlm,wdelay)", []string{`"/s" a` + rw}},
		{"nobody by name", "/s a(anonuid=65534)", []string{`"/s" a` + ro}},
		{"a comma at the end", "/s a(rw,)", []string{`"/s" a` + rw}},
		{"no effect", "/s a(no_wdelay,wdelay,insecure_locks,secure_locks,no_auth_nlm,auth_nlm,no_pnfs,acl,sec=sys:sys)", []string{`"/s" a` + ro}},
		{"fsid of a client applies to the export", "/s a(fsid=0x10) b c(fsid=16)", []string{
			`"/s" a` + optionsWith("sec=", "fsid=16,sec="), `"/s" b` + ro, `"/s" c` + optionsWith("sec=", "fsid=16,sec="),
		}},
		{"root", "/s a(fsid=root)", []string{`"/s" a` + optionsWith("sec=", "fsid=0,sec=")}},
		{"UUID", "/s a(fsid=6F3C1aB0-1111-2222-3333-0123456789ab)\n/t a(fsid=6f3c1ab0:11112222:33330123:456789ac)", []string{
			`"/s" a` + optionsWith("sec=", "fsid=6f3c1ab0-1111-2222-3333-0123456789ab,sec="),
			`"/t" a` + optionsWith("sec=", "fsid=6f3c1ab0-1111-2222-3333-0123456789ac,sec="),
		}},
		{"a referral", "/s a(refer=/x@Host.Example) b(refer=/x//y/@192.0.2.1+[2001:DB8::1]:/z@other.)", []string{
			`"/s" a` + optionsWith("sec=", "refer=/x@host.example,sec="), `"/s" b` + optionsWith("sec=", "refer=/x/y@192.0.2.1+[2001:db8::1]:/z@other,sec="),
		}},
		{"replicas", "/s a(replicas=/x@b:/y@c)", []string{`"/s" a` + optionsWith("sec=", "replicas=/x@b:/y@c,sec=")}},
		{"the last of a referral and replicas", "/s a(refer=/x@b,replicas=/y@c) b(replicas=/y@c,refer=/x@b)", []string{
			`"/s" a` + optionsWith("sec=", "replicas=/y@c,sec="), `"/s" b` + optionsWith("sec=", "refer=/x@b,sec="),
		}},
		{"nohide of an export with no parent", "/s/a a(nohide)\n/sa b", []string{`"/s/a" a` + optionsWith("sec=", "nohide,sec="), `"/sa" b` + ro}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse("exports", []byte(tt.text))
			require.NoError(t, err)
			assert.Equal(t, tt.want, explainLines(f))
			assert.Empty(t, f.Warnings)
			again, err := Parse("exports", []byte(f.String()))
			require.NoError(t, err, f.String())
			assert.Equal(t, explainLines(f), explainLines(again))
		})
	}
}

// TestParseErrors checks that every error is reported, with its position.
func TestParseErrors(t *testing.T) {
	long := "/" + strings.Repeat("x", maxPath)
	for _, tt := range []struct {
		text string
		want []string // each a prefix
	}{
		{"srv *", []string{`1:1: "srv" is not an absolute path; a line begins with a directory`}},
		{"*(rw) /srv", []string{`1:1: "*(rw)" is not an absolute path`}},
		{"/srv/../x *", []string{`1:1: path "/srv/../x" has . or .. in it; write it without`}},
		{long + " *", []string{"1:1: path"}},
		{"/a *(rw) x\n\n/b  *(r)", []string{`3:7: unknown option "r"; correct it`}},
		{"/a a(rw,root-squash) b(xx)", []string{`1:9: unknown option "root-squash"; `, `1:24: unknown option "xx"; `}},
		{"/a -rw,foo a(bar)\n/b c(baz)", []string{"1:8: unknown option", "1:14: unknown option", "2:6: unknown option"}},
		{"/a a(rw,,ro)", []string{"1:9: no option between two commas; remove one comma"}},
		{"/a a(rw, ro)", []string{`1:5: the options have no ")" in the same word; write them without blanks, as in a(rw,sync)`, `1:10: "ro)" is neither a host's name nor an address`}},
		{`/a "a(rw, ro)"`, []string{`1:10: option " ro" contains a blank`}},
		{"/a a(rw", []string{`1:5: the options have no ")"`}},
		{"/a a(rw)b(ro)", []string{`1:9: "b(ro)" follows the options; write a blank before the next client`}},
		{"/a a(rw)#x", []string{`1:9: "#x" follows the options`}},
		{"/a a)", []string{`1:4: "a)" is neither a host's name nor an address: a name cannot have ')'`}},
		{"/a b -ro", []string{`1:6: options "-ro" follow a client; write them before all clients, or in parentheses`}},
		{"/a @group(rw)", []string{`1:4: netgroup "@group": this server has no NIS; list its hosts or their network`}},
		{"/a gss/krb5i(rw)", []string{`1:4: "gss/krb5i" names no hosts; write hosts, and their security as an option, such as *(sec=krb5i)`}},
		{"/a a(rw,sec=krb4)", []string{`1:9: security "krb4" is none of sys, krb5, krb5i, krb5p and none; write one of them, or several with colons between`}},
		{"/a a(sec=sys:,sec=,sec=:sys,sec=Krb5)", []string{`1:6: security ""`, `1:15: security ""`, `1:20: security ""`, `1:29: security "Krb5"`}},
		{"/a a(sec)", []string{`1:6: option "sec" needs a value; write sec=VALUE`}},
		{"/a a(ro=1)", []string{`1:6: option "ro" has no value; write ro`}},
		{"/a a(anonuid=x,anongid=-1,anonuid=4294967295,anongid=)", []string{`1:6: "x" is not the number of a user`, `1:16: "-1" is not`, `1:27: "4294967295" is not`, `1:46: "" is not`}},
		{"/a a(fsid=x,fsid=4294967296,fsid=,fsid=1_0,fsid=-1)", []string{`1:6: "x" is neither a number`, "1:13: ", "1:29: ", "1:35: ", "1:44: "}},
		{"/a a(refer=,refer=x@b,refer=/x,refer=/x@)", []string{`1:6: "" is not PATH@HOST`, `1:13: "x@b" is not PATH@HOST`, `1:23: "/x" is not`, `1:32: "" is neither a server's name`}},
		{"/a a(refer=/x@b+,replicas=/x@*.b,refer=/x@b:)", []string{`1:6: "" is neither`, `1:18: "*.b" is neither`, `1:34: "" is not PATH@HOST`}},
		{"/a a(refer=/x@::1,refer=/x@[::1%x],refer=/x@[192.0.2.1])", []string{`1:6: "" is neither`, `1:19: address "[::1%x]"`, `1:36: address "[192.0.2.1]": write`}},
		{"/a a(refer=/x@b" + strings.Repeat(":/x@b", maxLocations) + ")", []string{"1:6: 41 places are more than the 40"}},
		{"/a a(refer)", []string{`1:6: option "refer" needs a value`}},
		{"/a a(fsid=1) b(fsid=2)", []string{"1:14: /a has fsid=1 for one client and fsid=2 for another; give it a single one"}},
		{"/a a(fsid=1)\n/b -fsid=1 b", []string{"2:12: /a and /b both have fsid=1; give each its own"}},
		{"/a a(mp)\n/b a(mountpoint=/x)\n/c a(pnfs)", []string{`1:6: option "mp" is not served`, `2:6: option "mountpoint" is`, `3:6: option "pnfs" is`}},
		{"/a 192.0.2.1/33 192.0.2.0/255.0.255.0 /24 192.0.2/24 10.0.0.0/ ::1/129 10.0.0.0/fe00:: ::/+1 ::ffff:10.0.0.0/104", []string{
			`1:4: network "192.0.2.1/33" has neither a prefix length nor a mask after the slash; write one such as`,
			"1:17: network", `1:39: network "/24" has no address`, "1:43: ", "1:54: ", "1:64: ", "1:72: ", "1:88: ", "1:94: ",
		}},
		{"/a [::1] fe80::1%eth0 192.168.* 10.?.1.1", []string{
			`1:4: address "[::1]" is in brackets, which are for wildcards; write ::1`, `1:10: address "fe80::1%eth0" has a zone; write fe80::1`,
			`1:23: "192.168.*": wildcards are for names; write a network`, "1:33: ",
		}},
		{"/a w[a w] w[] [^]x", []string{`1:4: wildcard "w[a" has a bracket`, `1:8: "w]" is neither`, `1:11: wildcard "w[]" has`, "1:15: "}},
		{"/a h\xc3\xa4st a/b " + strings.Repeat("h", 256), []string{`1:4: "hä`, `1:10: network "a/b" has no address`, "1:14: a host's name has 1 to 255 characters"}},
		{"/a .", []string{"1:4: a host's name has"}},
		{"/a .example a..b c..", []string{`1:4: name ".example" has no label before a dot; write`, `1:13: name "a..b"`, `1:18: name "c.."`}},
		{"/a \"b c\n/b d(x)", []string{`1:4: a quote is not closed on its line; write another "`, `1:4: "b c" is neither`, "2:6: unknown option"}},
		{`/a\400 b`, []string{`1:3: \400 is not a byte; the largest is \377`}},
		{"/a\x00 b", []string{"1:3: a path or name cannot have a zero byte; remove it"}},
		{"/a \\\n  b(x)", []string{`2:5: unknown option "x"`}},
		{"/a \\040b(x)", []string{`1:4: " b" is neither`, `1:10: unknown option`}},
	} {
		_, err := Parse("file", []byte(tt.text))
		if !assert.Error(t, err, tt.text) {
			continue
		}
		got := strings.Split(err.Error(), "\n")
		if assert.Len(t, got, len(tt.want), "%.100s: %v", tt.text, err) {
			for i, w := range tt.want {
				assert.True(t, strings.HasPrefix(got[i], "file:"+w), "%.100s:\ngot  %s\nwant %s", tt.text, got[i], w)
			}
		}
	}
}

// TestParseWarnings checks the warnings, as in exportfs, about entries that may serve more
// hosts than intended.
func TestParseWarnings(t *testing.T) {
	for text, want := range map[string]string{
		"/srv":                   `1:1: no client is named, and so every host may mount it; write /srv *(` + defaults + `), or name its clients`,
		"/s\\040v -rw":           `1:1: no client is named, and so every host may mount it; write /s\040v *(rw,`,
		"/srv a (rw)":            `1:8: "(rw)" has no client before it, and so applies to every host; write client(rw) without a blank, or *(rw)`,
		"/srv a(ro) \\\n a(rw)":  `2:2: /srv is exported to a twice, and the first is used; remove one`,
		"/srv A\n/srv/ a.(ro)":   `2:7: /srv is exported to a twice`,
		"/srv 10.0.0.0/8 10.1/8": "",
	} {
		f, err := Parse("file", []byte(text))
		if want == "" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, text)
		if assert.Len(t, f.Warnings, 1, text) {
			assert.True(t, strings.HasPrefix(f.Warnings[0].Error(), "file:"+want), f.Warnings[0].Error())
		}
	}
	f, err := Parse("file", []byte("/srv a (rw)"))
	require.NoError(t, err)
	assert.Equal(t, []string{`"/srv" a` + optionsWith(), `"/srv" *` + optionsWith("ro", "rw")}, explainLines(f))
}

func TestParseBounds(t *testing.T) {
	_, err := Parse("file", make([]byte, maxText+1))
	assert.ErrorContains(t, err, "more than the 8388608")
	_, err = Parse("file", []byte(strings.Repeat("x\n", 3*maxErrors)))
	lines := strings.Split(err.Error(), "\n")
	assert.Len(t, lines, maxErrors+1)
	assert.Equal(t, "file: 200 errors more", lines[maxErrors])
	f, err := Parse("file", []byte(strings.Repeat("/a (rw)\n", 3*maxErrors)))
	require.NoError(t, err)
	assert.Len(t, f.Warnings, maxErrors)
}

// TestParseIsQuick checks that a long file takes time and memory in proportion
// to its length.
func TestParseIsQuick(t *testing.T) {
	var b strings.Builder
	b.WriteString("/a")
	for i := range 50_000 {
		fmt.Fprintf(&b, " h%d", i)
	}
	f, err := Parse("file", []byte(b.String()))
	require.NoError(t, err)
	assert.Len(t, f.Exports[0].Clients, 50_000)
	_, err = Parse("file", []byte(strings.Repeat("x\n", maxText/16)))
	assert.ErrorContains(t, err, fmt.Sprint(maxText/16-maxErrors, " errors more"))
}

func TestOfExport(t *testing.T) {
	f, err := Parse("file", []byte("\n/a a b(fsid=3)\n/b c"))
	require.NoError(t, err)
	assert.Equal(t, 2, f.Exports[0].Line)
	assert.Equal(t, "3", f.Exports[0].FSID().String())
	assert.False(t, f.Exports[1].FSID().Set())
}

func TestFSID(t *testing.T) {
	for word, want := range map[string]struct {
		attr uint64
		id   uint32
	}{
		"0":                                    {0, 0xcd1870fe},
		"root":                                 {0, 0xcd1870fe},
		"1":                                    {1, 0xce187291},
		"00010203-0405-0607-08090a0b-0c0d0e0f": {0x0808080808080808, 0xa6623910},
	} {
		f, ok := ParseFSID(word)
		require.True(t, ok, word)
		assert.Equal(t, want.attr, f.Attr(), word)
		assert.Equal(t, want.id, f.ID(), "%s: it must never change: %#x", word, f.ID())
	}
	assert.Zero(t, FSID{}.ID())
	_, ok := ParseFSID(strings.Repeat("0", 1<<16))
	assert.True(t, ok, "a long number is a number")
	_, ok = ParseFSID(strings.Repeat("f", 1<<16))
	assert.False(t, ok)
}

func TestID(t *testing.T) {
	assert.Equal(t, "65534", ID{}.String())
	assert.Equal(t, ID{}, NewID(Nobody))
	assert.Zero(t, NewID(0).Number())
}

// TestEveryOption checks that docs/exports.md has each option, including the
// refused ones.
func TestEveryOption(t *testing.T) {
	text, err := os.ReadFile("../../docs/exports.md")
	require.NoError(t, err)
	var names []string
	for n := range flagOptions {
		names = append(names, n)
	}
	for n := range valueOptions {
		names = append(names, n)
	}
	for n := range rightFlags {
		names = append(names, n)
	}
	for n := range rightIDs {
		names = append(names, n)
	}
	for n := range unsupportedOptions {
		names = append(names, n)
	}
	for _, w := range flavorWords {
		names = append(names, w.word)
	}
	for _, n := range names {
		assert.Regexp(t, "`"+n+"(=[^`]+)?`", string(text))
	}
}

// FuzzParse checks that a parsed file is equivalent to its String, and that
// every error has a position in the file.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"/srv *(rw)\n", "/srv -rw,all_squash a b(ro)\n/b c # x", `"/a b"/c\040 10.0.0.0/255.0.0.0(anonuid=0) \` + "\n *.ex[a-c]?", "/a a(fsid=root) b(fsid=0)",
		"/a a(sec=krb5p:krb5,rw,sec=sys,ro,anonuid=7)", "/a -sec=sys,no_root_squash a(ro,sec=none:null:unix) b(all_squash)",
		"/a (rw)\n/a *", "/a a(sec=krb5,xx,,fsid=1_0)\r\n/b \"c", "/a fe80::1%x [::1] ::/0 1.2.*",
		`/a *(refer="/x y"@b+[::1]:/\042#\134@c) d(replicas=/x\0111@b)`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := 1 + strings.Count(string(text), "\n")
		place := func(e *Error) {
			assert.Positive(t, e.Line)
			assert.LessOrEqual(t, e.Line, lines)
			assert.Positive(t, e.Col)
			assert.LessOrEqual(t, e.Col, len(text)+1)
		}
		file, err := Parse("x", text)
		if err != nil {
			for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
				if e, ok := err.(*Error); ok {
					place(e)
				}
			}
			return
		}
		for _, w := range file.Warnings {
			place(w)
		}
		again, err := Parse("x", []byte(file.String()))
		require.NoError(t, err, "%q", file.String())
		require.Empty(t, again.Warnings)
		assert.Equal(t, explainLines(file), explainLines(again))
		for i := range file.Exports {
			_, _, err := Find(t.Context(), file.Exports[i].Clients, netip.MustParseAddr("192.0.2.1"), nil)
			assert.NoError(t, err)
		}
	})
}

// TestExportsWithErrors checks which exports an error makes unusable: those on its line, the one
// that has the same fsid=, and only those. No two have the same identity.
func TestExportsWithErrors(t *testing.T) {
	f, err := Parse("x", []byte("/a *(rw)\n/b *(rx)\n/c *\nd *\n/b *(rw)\n/e *(fsid=1)\n/f *(fsid=1)\n/a/g *(nohide)\n/h \"*\n/i *\n"))
	require.Error(t, err)
	faulty := make(map[string]bool)
	for _, e := range f.Exports {
		faulty[e.Path] = e.Err != nil
		assert.Equal(t, e.Path == "/e", e.FSID().Set())
	}
	assert.Equal(t, map[string]bool{"/a": false, "/b": true, "/c": false, "/e": true, "/f": true, "/a/g": false, "/h": true, "/i": false}, faulty)
}

// TestParseSources checks that several files count as one, and that errors name the file, in the
// order of the files.
func TestParseSources(t *testing.T) {
	f, err := ParseSources(Source{"1", []byte("/a *(fsid=1)\n/b/c h(rx) \\\n")}, Source{"2", []byte("d *\n/d *(fsid=1)\n")}, Source{"3", []byte("/b *\n/a h\n")})
	assert.EqualError(t, err, `1:2:8: unknown option "rx"; correct it (nfsrdma-exports(5) has them all)
2:1:1: "d" is not an absolute path; a line begins with a directory, written from / on
2:2:4: /a and /d both have fsid=1; give each its own`)
	places := make(map[string]string)
	for _, e := range f.Exports {
		places[e.Path] = fmt.Sprint(e.File, ":", e.Line)
	}
	assert.Equal(t, map[string]string{"/a": "1:1", "/b/c": "1:2", "/d": "2:2", "/b": "3:1"}, places)
	assert.Len(t, f.Exports[0].Clients, 2, "of lines in two files")
	assert.Regexp(t, `^# 1\n/a .*\n/a .*\n/b/c .*\n# 2\n/d .*\n# 3\n/b `, f.Explain())
}
