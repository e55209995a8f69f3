//! `EXPLAIN`: DataFusion's planner answers it itself, so its physical entries are replaced by those
//! of the distributed plan.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::config::ExplainOptions;
use datafusion::common::format::ExplainFormat;
use datafusion::logical_expr::{Explain, LogicalPlan, PlanType, StringifiedPlan};
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};

use crate::planner::DistributedQueryPlanner;

pub(crate) async fn plan(
    planner: &DistributedQueryPlanner,
    explain: &Explain,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let query = LogicalPlan::Explain(explain.clone());
    let plain = planner.inner().create_physical_plan(&query, session).await?;
    let Some(exec) = plain.downcast_ref::<ExplainExec>() else {
        return Ok(plain);
    };
    if !exec.stringified_plans().iter().any(|entry| is_final(&entry.plan_type)) {
        return Ok(plain);
    }
    let (plan, reasons) = planner.plan(&explain.plan, session).await?;
    let options = &session.config_options().explain;
    let show = Show { explain, options, plan: &plan, reasons: &reasons };
    let entries = exec.stringified_plans().iter().map(|entry| show.entry(entry)).collect();
    Ok(Arc::new(ExplainExec::new(exec.schema(), entries, exec.verbose())))
}

fn is_final(plan_type: &PlanType) -> bool {
    matches!(
        plan_type,
        PlanType::FinalPhysicalPlan
            | PlanType::FinalPhysicalPlanWithStats
            | PlanType::FinalPhysicalPlanWithSchema
    )
}

struct Show<'a> {
    explain: &'a Explain,
    options: &'a ExplainOptions,
    plan: &'a Arc<dyn ExecutionPlan>,
    reasons: &'a [String],
}

impl Show<'_> {
    fn entry(&self, entry: &StringifiedPlan) -> StringifiedPlan {
        let statistics = self.explain.show_statistics.unwrap_or(self.options.show_statistics);
        let text = match entry.plan_type {
            PlanType::FinalPhysicalPlan => self.text(statistics, self.options.show_schema),
            PlanType::FinalPhysicalPlanWithStats => self.text(true, false),
            PlanType::FinalPhysicalPlanWithSchema => self.text(false, true),
            _ => return entry.clone(),
        };
        StringifiedPlan::new(entry.plan_type.clone(), text)
    }

    fn text(&self, show_statistics: bool, show_schema: bool) -> String {
        let plan = displayable(self.plan.as_ref());
        let mut text = match self.explain.explain_format {
            ExplainFormat::Tree => plan
                .set_tree_maximum_render_width(self.options.tree_maximum_render_width)
                .tree_render()
                .to_string(),
            _ => plan
                .set_show_statistics(show_statistics)
                .set_show_schema(show_schema)
                .indent(self.explain.verbose)
                .to_string(),
        };
        // A distributed plan's root shows its reasons itself.
        for reason in self.reasons {
            text.push_str(&format!("not distributed: {reason}\n"));
        }
        text
    }
}
