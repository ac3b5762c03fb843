package main

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// TestContainer checks that serve understands the arguments in contrib/container,
// and the exports there.
func TestContainer(t *testing.T) {
	for file, args := range map[string]string{
		"Containerfile":   `(?m)^CMD \[(.*)\]$`,
		"kubernetes.yaml": `(?m)^ +args: \[(.*)\]$`,
	} {
		text, err := os.ReadFile("../../contrib/container/" + file)
		require.NoError(t, err)
		m := regexp.MustCompile(args).FindSubmatch(text)
		require.NotNil(t, m, file)
		words := strings.Split(string(m[1]), ", ")
		for i, w := range words {
			words[i] = strings.Trim(w, `"`)
		}
		require.Equal(t, "serve", words[0], file)
		cmd := newServeCommand()
		require.NoError(t, cmd.ParseFlags(words[1:]), file)
		assert.Empty(t, cmd.Flags().Args(), file)
		assert.Equal(t, "/etc/nfsrdma/exports", cmd.Flags().Lookup("exports").Value.String(), file)
		if m := regexp.MustCompile(`(?m)^  exports: \|\n((?: {4}.*\n)+)`).FindSubmatch(text); m != nil {
			f, err := exports.Parse(file, m[1])
			require.NoError(t, err)
			assert.Len(t, f.Exports, 1)
		}
	}
}

// TestContainerPorts checks that the ports and the probe of contrib/container are those
// of serve.
func TestContainerPorts(t *testing.T) {
	manifest, err := os.ReadFile("../../contrib/container/kubernetes.yaml")
	require.NoError(t, err)
	flags := newServeCommand().Flags()
	assert.Contains(t, string(manifest), "{name: rdma, containerPort: "+strings.TrimPrefix(flags.Lookup("listen").DefValue, ":")+"}")
	assert.Contains(t, string(manifest), "{name: nfs, containerPort: "+strings.TrimPrefix(flags.Lookup("tcp").DefValue, ":")+"}")
	file, err := os.ReadFile("../../contrib/container/Containerfile")
	require.NoError(t, err)
	assert.Contains(t, string(file), "EXPOSE "+strings.TrimPrefix(flags.Lookup("listen").DefValue, ":")+" "+strings.TrimPrefix(flags.Lookup("tcp").DefValue, ":")+"\n")

	m := regexp.MustCompile(`httpGet: \{path: ([^,]*), port: metrics\}`).FindSubmatch(manifest)
	require.NotNil(t, m)
	status, _ := httpGet(t, new(runningDaemon).metricsHandler(), string(m[1]))
	assert.Equal(t, http.StatusOK, status)
}
