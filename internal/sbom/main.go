package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
)

func main() {
	d := flags{}
	flag.StringVar(&d.name, "name", "", "the product")
	flag.StringVar(&d.version, "version", "", "its version")
	flag.StringVar(&d.time, "time", "", "when its source was made, as 2006-01-02T15:04:05Z")
	flag.Parse()
	if err := run(d, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

type flags struct{ name, version, time string }

// document is a document of SPDX 2.3, with what its schema demands.
type document struct {
	Version      string     `json:"spdxVersion"`
	License      string     `json:"dataLicense"`
	ID           string     `json:"SPDXID"`
	Name         string     `json:"name"`
	Namespace    string     `json:"documentNamespace"`
	CreationInfo creation   `json:"creationInfo"`
	Packages     []pack     `json:"packages"`
	Relations    []relation `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pack struct {
	ID       string      `json:"SPDXID"`
	Name     string      `json:"name"`
	Version  string      `json:"versionInfo"`
	Location string      `json:"downloadLocation"`
	Analyzed bool        `json:"filesAnalyzed"`
	Refs     []reference `json:"externalRefs,omitempty"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relation struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const (
	self    = "SPDXRef-DOCUMENT"
	product = "SPDXRef-product"
	nowhere = "NOASSERTION"
)

// run prints the document of the programs in files.
func run(f flags, files []string, out io.Writer) error {
	var infos []*buildinfo.BuildInfo
	for _, file := range files {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s: not a Go program with build information: %w", file, err)
		}
		infos = append(infos, info)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(describe(f, infos))
}

// describe returns the document of programs, with their modules in one order.
func describe(f flags, infos []*buildinfo.BuildInfo) document {
	modules := make(map[string]string) // versions by path
	for _, info := range infos {
		modules["stdlib"] = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = m.Version
		}
	}
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: self, Name: f.name + "-" + f.version,
		Namespace:    "https://github.com/nfsrdma/nfsrdma/sbom/" + f.name + "-" + f.version,
		CreationInfo: creation{Created: f.time, Creators: []string{"Tool: nfsrdma-sbom"}},
		Packages:     []pack{{ID: product, Name: f.name, Version: f.version, Location: nowhere}},
		Relations:    []relation{{self, "DESCRIBES", product}},
	}
	for path, version := range modules {
		id := "SPDXRef-" + regexp.MustCompile(`[^A-Za-z0-9.-]`).ReplaceAllString(path+"-"+version, "-")
		d.Packages = append(d.Packages, pack{
			ID: id, Name: path, Version: version, Location: nowhere,
			Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
		})
		d.Relations = append(d.Relations, relation{product, "DEPENDS_ON", id})
	}
	slices.SortFunc(d.Packages[1:], func(a, b pack) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(d.Relations[1:], func(a, b relation) int { return cmp.Compare(a.To, b.To) })
	return d
}
