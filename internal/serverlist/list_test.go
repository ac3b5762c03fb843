package serverlist

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parseEntry parses HOST or HOST/PORT.
func parseEntry(entry string) (Server, error) {
	host, port, found := strings.Cut(entry, "/")
	if found && port == "" {
		return Server{}, errors.New("the port is missing")
	}
	if !found {
		port = "20049"
	}
	return Server{host, port}, nil
}

func TestParse(t *testing.T) {
	for list, want := range map[string]string{
		"a":                               "a:20049",
		"a,b/5,::1":                       "a:20049,b:5,[::1]:20049",
		"a,a/5":                           "a:20049,a:5",
		"p,a,b,c,d,e,f,g,h,i,j,k,l,m,n,o": "",
	} {
		servers, err := Parse(list, parseEntry)
		require.NoError(t, err, list)
		if want != "" {
			assert.Equal(t, want, Format(servers))
		}
	}
	for list, want := range map[string]string{
		"a/":                       "the port is missing",
		"a,b/":                     `server "b/" of the list: the port is missing`,
		",a":                       `server 1 of the list ",a" is empty: write the servers with one comma between them`,
		"a,b/7,B/7":                `the list has the server B:7 twice ("b/7" and "B/7"): remove one`,
		strings.Repeat("a,", 16):   "the list has 17 servers, and at most 16 are possible: remove some",
		strings.Repeat(",", 1<<16): "the list has 65537 servers, and at most 16 are possible: remove some",
	} {
		_, err := Parse(list, parseEntry)
		assert.EqualError(t, err, want)
	}
}
