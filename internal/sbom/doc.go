// Sbom prints a software bill of materials for Go programs, in SPDX 2.3 format,
// from the build information that the programs contain.
package main
