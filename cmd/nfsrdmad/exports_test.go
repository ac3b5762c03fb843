package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseExports(t *testing.T) {
	wd, err := os.Getwd()
	require.NoError(t, err)
	for _, tt := range []struct {
		arg, dir, name string
	}{
		{"/srv/a", "/srv/a", "/srv/a"},
		{"/srv/a/", "/srv/a/", "/srv/a"},
		{"data", "data", filepath.Join(wd, "data")},
		{"/srv/a=/x", "/srv/a", "/x"},
		{".=/x/y", ".", "/x/y"},
		{"/srv/a=/", "/srv/a", "/"},
		{"/srv/a=b", "/srv/a=b", "/srv/a=b"},
		{"/srv/a=/b=/c", "/srv/a=/b", "/c"},
		{"/srv/\xff=/\xfe", "/srv/\xff", "/\xfe"},
	} {
		got, err := parseExports([]string{tt.arg})
		require.NoError(t, err, tt.arg)
		assert.Equal(t, []exportSpec{{dir: tt.dir, name: tt.name}}, got, tt.arg)
	}
	got, err := parseExports([]string{"mem:=/a", "mem:=/b", "mem:4GiB=/c", "./mem:=/d"})
	require.NoError(t, err)
	assert.Equal(t, []exportSpec{
		{dir: "mem:", memory: 1 << 30, name: "/a"},
		{dir: "mem:", memory: 1 << 30, name: "/b"},
		{dir: "mem:4GiB", memory: 4 << 30, name: "/c"},
		{dir: "./mem:", name: "/d"},
	}, got)
}

func TestParseExportsRefuses(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{""}, `"" names no directory`},
		{[]string{"=/x"}, `"=/x" names no directory`},
		{[]string{"/srv=/x/"}, `"/x" is`},
		{[]string{"/srv=/x/../y"}, `"/y" is`},
		{[]string{"/srv=/x\x00"}, `plain absolute path`},
		{[]string{"/srv=/" + strings.Repeat("x", 1024)}, "write DIR=/EXPORT"},
		{[]string{"mem:"}, "write mem:=/EXPORT, or ./mem: for a directory"},
		{[]string{"mem:much=/x"}, `mem:much, a file system in memory of SIZE "much": not a size`},
		{[]string{"mem:2000GiB=/x"}, "(below 1025 GiB)"},
		{[]string{"mem:1024KB=/x"}, "write ./mem:1024KB for a directory of that name"},
		{[]string{"mem:1KiB=/x"}, "a file system in memory needs 1MiB or more"},
		{[]string{"/srv/a=/x", "/srv/b=/x"}, "/srv/a and /srv/b are both exported as /x"},
	} {
		_, err := parseExports(tt.args)
		assert.ErrorContains(t, err, tt.want, tt.args)
	}
}

func TestReadyNames(t *testing.T) {
	assert.Equal(t, `/a,/b\040c\054d\134\012`, formatExportNames([]exportSpec{{name: "/a"}, {name: "/b c,d\\\n"}}))
}

func TestParseNets(t *testing.T) {
	got, err := parseNets("--clients", []string{"192.0.2.7/24", "::ffff:192.0.2.7", "2001:db8::1", "2001:db8::/32"})
	require.NoError(t, err)
	assert.Equal(t, []netip.Prefix{
		netip.MustParsePrefix("192.0.2.0/24"),
		netip.MustParsePrefix("192.0.2.7/32"),
		netip.MustParsePrefix("2001:db8::1/128"),
		netip.MustParsePrefix("2001:db8::/32"),
	}, got)
	for _, w := range []string{"", "host", "192.0.2.0/33", "fe80::1%eth0", "fe80::1%eth0/64"} {
		_, err := parseNets("--clients", []string{w})
		assert.ErrorContains(t, err, "--clients", w)
	}
}
