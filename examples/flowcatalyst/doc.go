// Package flowcatalyst has a configuration for FlowCatalyst's tables, which its tests run as it is.
package flowcatalyst
