//! The bill of materials: CycloneDX 1.5 in JSON (<https://cyclonedx.org/docs/1.5/json/>).

use serde_json::{Value, json};

use crate::components::{Components, Package};

pub fn make(components: &Components, time: &str) -> String {
    let (own, others): (Vec<_>, Vec<_>) = components
        .packages
        .iter()
        .partition(|package| package.source.is_none());
    let version = env!("CARGO_PKG_VERSION");
    let whole = format!("ulsock@{version}#whole");
    let parts: Vec<String> = own.iter().map(|package| reference(package)).collect();
    let mut dependencies = vec![json!({ "ref": whole, "dependsOn": parts })];
    for package in &components.packages {
        let used = components.dependencies(package).iter();
        let used: Vec<String> = used
            .filter_map(|id| components.packages.iter().find(|it| it.id == *id))
            .map(reference)
            .collect();
        dependencies.push(json!({ "ref": reference(package), "dependsOn": used }));
    }
    let listed = own.iter().chain(&others);
    let listed: Vec<Value> = listed
        .map(|package| component(components, package))
        .collect();
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application",
                "bom-ref": whole,
                "name": "ulsock",
                "version": version,
                "licenses": [{ "expression": env!("CARGO_PKG_LICENSE") }],
            },
        },
        "components": listed,
        "dependencies": dependencies,
    });
    format!("{bom:#}\n")
}

/// Unique in the document: there may be several versions of one name.
fn reference(package: &Package) -> String {
    format!("{}@{}", package.name, package.version)
}

fn component(components: &Components, package: &Package) -> Value {
    let mut entry = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
        "licenses": [{ "expression": package.license() }],
    });
    if package.source.is_some() {
        entry["purl"] = format!("pkg:cargo/{}@{}", package.name, package.version).into();
    }
    if let Some(checksum) = components.checksum(package) {
        entry["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(repository) = &package.repository {
        entry["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_to_a_component() {
        let components = Components::of(&["ulsock_preload".to_owned()]).unwrap();
        let bom: Value =
            serde_json::from_str(&make(&components, "2026-01-31T12:00:00Z")).expect("JSON");
        let list = |value: &Value| value.as_array().expect("a list").clone();
        let mut known: Vec<Value> = list(&bom["components"])
            .iter()
            .map(|it| it["bom-ref"].clone())
            .collect();
        known.push(bom["metadata"]["component"]["bom-ref"].clone());
        for dependency in list(&bom["dependencies"]) {
            assert!(known.contains(&dependency["ref"]), "{dependency}");
            for used in list(&dependency["dependsOn"]) {
                assert!(known.contains(&used), "{dependency}");
            }
        }
        let redhook = list(&bom["components"])
            .into_iter()
            .find(|it| it["name"] == "redhook");
        let redhook = redhook.expect("the library uses redhook");
        assert_eq!(redhook["purl"], "pkg:cargo/redhook@2.0.0");
        assert_eq!(redhook["hashes"][0]["alg"], "SHA-256");
    }
}
