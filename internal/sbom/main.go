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
	if err := printSBOM(d, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

type flags struct{ name, version, time string }

// document is an SPDX 2.3 document, with the fields that its schema requires.
type document struct {
	Version      string         `json:"spdxVersion"`
	License      string         `json:"dataLicense"`
	ID           string         `json:"SPDXID"`
	Name         string         `json:"name"`
	Namespace    string         `json:"documentNamespace"`
	CreationInfo creationInfo   `json:"creationInfo"`
	Packages     []spdxPackage  `json:"packages"`
	Relations    []relationship `json:"relationships"`
}

type creationInfo struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID       string        `json:"SPDXID"`
	Name     string        `json:"name"`
	Version  string        `json:"versionInfo"`
	Location string        `json:"downloadLocation"`
	Analyzed bool          `json:"filesAnalyzed"`
	Refs     []externalRef `json:"externalRefs,omitempty"`
}

type externalRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const (
	documentID  = "SPDXRef-DOCUMENT"
	productID   = "SPDXRef-product"
	noAssertion = "NOASSERTION"
)

// printSBOM prints the document for the programs in files.
func printSBOM(f flags, files []string, out io.Writer) error {
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
	return e.Encode(newDocument(f, infos))
}

// newDocument returns the document for programs, with their modules sorted.
func newDocument(f flags, infos []*buildinfo.BuildInfo) document {
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
		Version: "SPDX-2.3", License: "CC0-1.0", ID: documentID, Name: f.name + "-" + f.version,
		Namespace:    "https://github.com/nfsrdma/nfsrdma/sbom/" + f.name + "-" + f.version,
		CreationInfo: creationInfo{Created: f.time, Creators: []string{"Tool: nfsrdma-sbom"}},
		Packages:     []spdxPackage{{ID: productID, Name: f.name, Version: f.version, Location: noAssertion}},
		Relations:    []relationship{{documentID, "DESCRIBES", productID}},
	}
	for path, version := range modules {
		id := "SPDXRef-" + regexp.MustCompile(`[^A-Za-z0-9.-]`).ReplaceAllString(path+"-"+version, "-")
		d.Packages = append(d.Packages, spdxPackage{
			ID: id, Name: path, Version: version, Location: noAssertion,
			Refs: []externalRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
		})
		d.Relations = append(d.Relations, relationship{productID, "DEPENDS_ON", id})
	}
	slices.SortFunc(d.Packages[1:], func(a, b spdxPackage) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(d.Relations[1:], func(a, b relationship) int { return cmp.Compare(a.To, b.To) })
	return d
}
