package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseURL(t *testing.T) {
	at := func(host, port string) server { return server{host: host, port: port} }
	for _, tt := range []struct {
		url  string
		want location
		back string // "": the URL itself
	}{
		{"nfs://h/e/p", location{at("h", "20049"), "/e/p", false}, ""},
		{"nfs://h", location{at("h", "20049"), "/", false}, "nfs://h/"},
		{"nfs://h/", location{at("h", "20049"), "/", false}, ""},
		{"nfs://h:20049/e", location{at("h", "20049"), "/e", false}, "nfs://h/e"},
		{"nfs://192.0.2.1:5/e", location{at("192.0.2.1", "5"), "/e", false}, ""},
		{"nfs://[::1]:20050/e", location{at("::1", "20050"), "/e", false}, ""},
		{"nfs://[2001:db8::1]/e", location{at("2001:db8::1", "20049"), "/e", false}, ""},
		{"nfs://[fe80::1%25eth0]/e", location{at("fe80::1%eth0", "20049"), "/e", false}, "nfs://[fe80::1%eth0]/e"},
		{"nfs://h/e//a/./b/", location{at("h", "20049"), "/e/a/b", true}, "nfs://h/e/a/b"},
		{"nfs://h/e/../b", location{at("h", "20049"), "/e/../b", false}, ""},
		{"nfs://h/e/%FF%25%3f#x y", location{at("h", "20049"), "/e/\xff%?#x y", false}, "nfs://h/e/%FF%25%3F#x%20y"},
		{"nfs://h/ä€", location{at("h", "20049"), "/ä€", false}, ""},
		{"nfs://h/\xc3", location{at("h", "20049"), "/\xc3", false}, "nfs://h/%C3"},
		{"nfs://h/%0a\x1b", location{at("h", "20049"), "/\n\x1b", false}, "nfs://h/%0A%1B"},
		{"nfs://a,b/e", location{server{list: "a:20049,b:20049", host: "a", port: "20049"}, "/e", false}, ""},
		{"nfs://a:20050,[::1]:20051,c/x,y", location{server{list: "a:20050,[::1]:20051,c:20049", host: "a", port: "20050"}, "/x,y", false}, ""},
		{"nfs://h/e?mountport=7", location{server{host: "h", port: "20049", mountPort: 7}, "/e", false}, "nfs://h/e"},
		{"nfs://h/e?mountport=7,mounthost=[::2]", location{server{host: "h", port: "20049", mountHost: "::2", mountPort: 7}, "/e", false}, "nfs://h/e"},
		{"nfs://h?mounthost=m&mountport=7", location{server{host: "h", port: "20049", mountHost: "m", mountPort: 7}, "/", false}, "nfs://h/"},
	} {
		got, err := parseURL(tt.url, false)
		require.NoError(t, err, tt.url)
		assert.Equal(t, tt.want, got, tt.url)
		if tt.back == "" {
			tt.back = tt.url
		}
		assert.Equal(t, tt.back, got.String())
	}
}

func TestParseURLRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"http://h/e":              `not a URL: write nfs://`,
		"nfs:///e":                "the server is missing",
		"nfs://u@h/e":             "the server is missing",
		"nfs://h:0/e":             `"0" is not a port`,
		"nfs://h:65536/e":         `"65536" is not a port`,
		"nfs://h:x/e":             `"x" is not a port`,
		"nfs://h:/e":              `"" is not a port`,
		"nfs://a:b:c/e":           "write the server as SERVER, SERVER:PORT or [IPv6]:PORT",
		"nfs://h/%":               "write % itself as %25",
		"nfs://h/%4":              "write % itself as %25",
		"nfs://h/%zz":             "write % itself as %25",
		"nfs://h/%+1":             "write % itself as %25",
		"nfs://h/%00":             "zero byte",
		"nfs://h/e?x=1":           `"x=1" is not an option`,
		"nfs://h/e?mountport=0":   `"0" is not a port`,
		"nfs://h/e?mounthost=":    `"mounthost=" is not an option`,
		"nfs://h/e?mountport=1,x": `"x" is not an option`,
		"nfs://a,b:0/e":           `server "b:0" of the list: "0" is not a port`,
		"nfs://a,,b/e":            `server 2 of the list "a,,b" is empty`,
		"nfs://a,b,/e":            `server 3 of the list "a,b," is empty`,
		"nfs://a,b,A:20049/e":     `the list has the server A:20049 twice ("a" and "A:20049"): remove one`,
		"nfs://a,b/e?mounthost=m": "mounthost names one host, and the servers are several",
		"nfs://" + strings.Repeat("h,", 16) + "h/e": "the list has 17 servers, and at most 16 are possible",
	} {
		_, err := parseURL(url, false)
		assert.ErrorContains(t, err, want, url)
	}
}

func TestParseServerOperand(t *testing.T) {
	for word, want := range map[string]server{
		"h":                 {host: "h", port: "20049"},
		"h:5":               {host: "h", port: "5"},
		"::1":               {host: "::1", port: "20049"},
		"[::1]":             {host: "::1", port: "20049"},
		"[::1]:5":           {host: "::1", port: "5"},
		"h?mountport=6":     {host: "h", port: "20049", mountPort: 6},
		"nfs://h:5/ignored": {host: "h", port: "5"},
		"a,b:5":             {list: "a:20049,b:5", host: "a", port: "20049"},
	} {
		got, err := parseServerOperand(word, false)
		require.NoError(t, err, word)
		assert.Equal(t, want, got, word)
	}
	for _, word := range []string{"", "h/e", "h:/e", "nfs://", "h?", "[::1"} {
		if _, err := parseServerOperand(word, false); word != "h?" {
			assert.Error(t, err, word)
		} else {
			assert.NoError(t, err, word)
		}
	}
}

// FuzzURL checks that a location does not change if it is written and parsed
// again.
func FuzzURL(f *testing.F) {
	for _, url := range []string{"nfs://h/e/p", "nfs://[::1]:5/%FF?mountport=1", "nfs://h/a//..", "nfs://a%25b/c", "h:/a?b%", "0:/\x00", "a,[::1]:5:/x,y"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		l, err := parseURL(url, false)
		if err != nil {
			return
		}
		again, err := parseURL(l.String(), false)
		require.NoError(t, err)
		assert.Equal(t, l.path, again.path)
		assert.Equal(t, l.host, again.host)
		assert.Equal(t, l.port, again.port)
		assert.Equal(t, l.list, again.list)
	})
}
