package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDescribe(t *testing.T) {
	a := &buildinfo.BuildInfo{GoVersion: "go1.2", Deps: []*debug.Module{
		{Path: "example.org/z", Version: "v1.0.0"},
		{Path: "example.org/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/new", Version: "v2.0.0"}},
	}}
	b := &buildinfo.BuildInfo{GoVersion: "go1.2", Deps: []*debug.Module{{Path: "example.org/b", Version: "v0.1.0"}, {Path: "example.org/z", Version: "v1.0.0"}}}
	d := newDocument(flags{name: "prog", version: "1", time: "2026-01-02T03:04:05Z"}, []*buildinfo.BuildInfo{a, b})
	var names []string
	for i, p := range d.Packages {
		names = append(names, p.Name+" "+p.Version)
		if i > 0 {
			assert.Equal(t, relationship{productID, "DEPENDS_ON", p.ID}, d.Relations[i])
			assert.Equal(t, "pkg:golang/"+p.Name+"@"+p.Version, p.Refs[0].Locator)
		}
	}
	assert.Equal(t, []string{"prog 1", "example.org/b v0.1.0", "example.org/new v2.0.0", "example.org/z v1.0.0", "stdlib go1.2"}, names)
}

func TestRun(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, printSBOM(flags{name: "prog"}, []string{program}, &out))
	assert.Contains(t, out.String(), `"spdxVersion": "SPDX-2.3"`)
	assert.ErrorContains(t, printSBOM(flags{}, []string{"/dev/null"}, &out), "/dev/null: not a Go program")
}
